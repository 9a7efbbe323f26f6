"""The summary of a method's run: what its clients reached and sent, each number with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any

from fedsub_server.convergence import FALLS

#: People of whom an interval is given at least: Student's t of two is twelve times as wide as the
#: spread of many, and says nothing ("0.881 ± 1.310").
FEWEST = 5
_SPREAD = "over clients that have test samples, in evaluated_round"
_ZEROS = "in the last round in which the method reports it"
_CLIENTS = "mean over clients that have test samples, in evaluated_round"
_ROUNDS = "mean over every client and round, from 1, that reports bytes"


def _unit(text: str, default: Any = MISSING) -> Any:
    """Return a dataclass field that says what its number averages over."""
    return field(default=default, metadata={"unit": text})


@dataclass(frozen=True)
class MethodSummary:
    """The summary of one method, each number with its unit; None is what the run does not hold."""

    method: str
    tested: str | None = _unit("the model that is tested: received or trained")
    encoding: str | None = _unit("filters of uploads and downloads")
    rounds: int = _unit("last committed round")
    evaluated_round: int | None = _unit("last round with an evaluation")
    best_by: str | None = _unit(
        "last: tested are the models of evaluated_round; validation: of each client the model of "
        "its best round so far, by macro F1 or mae on a part of its training samples held back"
    )
    best_round: float | None = _unit(
        "median over clients of the round that their tested model is of; null with best-by last"
    )
    clients: int = _unit("clients that have test samples in evaluated_round")
    people: int = _unit("these, and who is left out")
    left_out: str = _unit("clients that are not in evaluated_round's numbers, and why")
    diverged: str = _unit("clients whose loss is no number in evaluated_round")
    in_rounds: str = _unit("what went wrong in rounds, in sentences")
    macro_f1: float | None = _unit(_CLIENTS)
    macro_f1_ci95: float | None = _unit(
        f"half-width of the 95 % interval of the mean, Student t; none below {FEWEST} clients"
    )
    macro_f1_p10: float | None = _unit("10th percentile over clients")
    macro_f1_std: float | None = _unit(f"population standard deviation {_SPREAD}")
    macro_f1_min: float | None = _unit(f"least {_SPREAD}")
    macro_f1_max: float | None = _unit(f"greatest {_SPREAD}")
    accuracy: float | None = _unit(_CLIENTS)
    accuracy_std: float | None = _unit(f"population standard deviation {_SPREAD}")
    accuracy_min: float | None = _unit(f"least {_SPREAD}")
    accuracy_max: float | None = _unit(f"greatest {_SPREAD}")
    weighted_f1: float | None = _unit(_CLIENTS)
    loss: float | None = _unit(
        "cross-entropy, nats; of a target the mean squared error of places in its range, -1 to 1; "
        f"{_CLIENTS}"
    )
    sparsity_weights: float | None = _unit(f"share of zeros over the layers' weights, {_ZEROS}")
    sparsity_all: float | None = _unit(f"share of zeros over all numbers, biases too, {_ZEROS}")
    bytes_up: float | None = _unit(f"bytes sent, {_ROUNDS}")
    full_models_up_papers: float | None = _unit(f"papers' encoding in full models, {_ROUNDS}")
    full_models_up_union: float | None = _unit(f"union of selected rows in full models, {_ROUNDS}")
    full_models_up_sent: float | None = _unit(f"bytes sent in full models, {_ROUNDS}")
    full_models_up_flower: float | None = _unit(f"Flower's messages in full models, {_ROUNDS}")
    full_models_down_sent: float | None = _unit(
        f"bytes received for training in full models, {_ROUNDS}"
    )
    full_models_down_flower: float | None = _unit(
        f"Flower's messages received for training in full models, {_ROUNDS}"
    )
    full_models_evaluation_sent: float | None = _unit(
        f"bytes received to evaluate in full models, {_ROUNDS}"
    )
    full_models_evaluation_flower: float | None = _unit(
        f"Flower's messages received to evaluate in full models, {_ROUNDS}"
    )
    by_capacity: Mapping[str, Mapping[str, float]] = _unit(
        "people of each capacity, and their macro F1 and accuracy, or mae and r2, and loss, "
        f"{_CLIENTS}; empty where all hold everything"
    )
    loss_fall: float | None = _unit(
        "by how much the loss fell over the last quarter of the rounds, a share of what it was; "
        f"above {FALLS:g} it still falls"
    )
    own_heads_clients: int = _unit("clients that have test samples and an own head")
    own_heads_macro_f1: float | None = _unit(
        f"of heads that are solved of each person's own samples alone, {_CLIENTS}"
    )
    own_heads_macro_f1_ci95: float | None = _unit("as macro_f1_ci95, of own heads")
    own_heads_macro_f1_p10: float | None = _unit("10th percentile over clients, of own heads")
    own_heads_weighted_f1: float | None = _unit(f"of own heads, {_CLIENTS}")
    own_heads_loss: float | None = _unit(f"of own heads, cross-entropy, nats, {_CLIENTS}")
    twin: str | None = _unit(
        "what people have without others and the method is held against: own heads or local, "
        "whichever has the higher mean macro F1 over people, or the one that there is"
    )
    gain_over_twin: float | None = _unit(
        "macro F1 less the twin's, or the twin's mae less its own, mean over clients of both, in "
        "the last round both were evaluated"
    )
    worse_than_twin: float | None = _unit("share of these clients that are worse off than with it")
    epsilon: float | None = _unit("what noise has spent by the last round; null without noise")
    epsilon_delta: float | None = _unit("at which epsilon is reported")
    epsilon_of: str | None = _unit("what epsilon is of")
    seconds: float = _unit("seconds, sum over rounds")
    server_milliseconds: float | None = _unit(
        "milliseconds that the method's own server half took in a round: who takes part, what each "
        "is sent, what came checked and put together; mean over rounds, without messages and disk"
    )
    memory: int | None = _unit(
        "bytes, the most that the process that simulated the run held, its data, its libraries and "
        "what methods before it left included"
    )
    backend: str | None = _unit(
        "who trained in the process that simulated the run, compiled kernels or PyTorch, and why"
    )

    mae: float | None = _unit(f"mean absolute error of a target, in its unit, {_CLIENTS}", None)
    mae_ci95: float | None = _unit("as macro_f1_ci95, of mae", None)
    mae_std: float | None = _unit(f"population standard deviation {_SPREAD}", None)
    mae_min: float | None = _unit(f"least {_SPREAD}", None)
    mae_max: float | None = _unit(f"greatest {_SPREAD}", None)
    rmse: float | None = _unit(
        f"root mean squared error of a target, in its unit, {_CLIENTS}", None
    )
    r2: float | None = _unit(
        "share of a target's variance that is predicted, mean over r2_clients, in evaluated_round",
        None,
    )
    r2_ci95: float | None = _unit("as macro_f1_ci95, of r2", None)
    r2_clients: int = _unit("clients whose test samples differ in the target; others have no r2", 0)

    @property
    def still_falls(self) -> bool:
        """Whether the loss still fell when the rounds ended."""
        return self.loss_fall is not None and self.loss_fall > FALLS

    @property
    def tested_words(self) -> str:
        """Return the name of the tested model, and its round if chosen; "" if unknown."""
        if self.tested is None or self.best_round is None:
            return self.tested or ""
        of = f"{self.best_round:g} of {self.evaluated_round}"
        return f"{self.tested}, each person's best round by validation (median {of})"
