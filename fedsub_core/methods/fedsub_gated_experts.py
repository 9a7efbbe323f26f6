"""A person's mixture: its experts, the hyperparameters of how they are mixed, and when they train.

Values that no study found worth choosing are constants: ``studies/README.md`` has what others gave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import smooth
from fedsub_core.methods.fedsub import PROTOTYPE_DELTA, PrototypeHyperparameters, cluster_count
from fedsub_core.options import choice, option

#: The experts that a person's mixture may have: a model trained alone; the common model, whose
#: embedding is used, too, and which knows classes that the person lacks; a head of the person's own
#: on the common model's body.
LOCAL, FUSED, HEAD = EXPERTS = ("local", "fused", "head")
#: Share of a person's training samples on which the gate compares experts.
GATE_SHARE = 0.25
#: Epochs of the own head in a round, chosen on parts of the training data of six federations.
HEAD_EPOCHS = 5


@dataclass(frozen=True)
class FedSubGatedHyperparameters(PrototypeHyperparameters):
    """Defaults that mix people, one setting for all data."""

    # FedSub's hyperparameters that its parts read, and that stay as they are here.
    relevance: ClassVar[str] = "naive"
    relevance_samples: ClassVar[int] = 0
    lrp_start: ClassVar[str] = "logits"
    depth: ClassVar[int] = 0
    impute_neighbours: ClassVar[int] = 5
    prototype_delta: ClassVar[float] = PROTOTYPE_DELTA

    score: str = choice(
        "samples", "one", "accuracy", "accuracy-samples", doc="how much a client's row counts"
    )
    k_selection: str = cluster_count("dbi-capped", "dbi, dbi-capped, silhouette or fixed:K")
    impute: bool = option(
        True,
        "put a person who lacks a class into one of its clusters, and send them the class's row",
    )
    experts: str = option(
        "local,fused,head",
        "the person's models: local (trained alone), fused (as received), head (an own head on "
        "the fused model's body)",
        pattern=rf"({'|'.join(EXPERTS)})(,({'|'.join(EXPERTS)}))*",
        like=f"some of {', '.join(EXPERTS)}, with commas between them and no blanks",
    )
    smooth: float = smooth(0.8)
    gate_until: float = option(
        0.4,
        "share of the run after which the samples on which the gate compares experts, a quarter of "
        "a person's, are used for training, and no longer by the gate; a run with fewer than "
        "1 / gate-until rounds never uses the gate",
        maximum=1,
        above=0,
    )
    open_classes: str = choice(
        "off",
        "on",
        doc="on: the fused model's predictions of classes that the person lacks count; off: "
        "such a class is predicted only if the mixture itself does so, which is rare",
    )


def names(hyper: Any) -> tuple[str, ...]:
    """Return the experts, in the order of the gate's weights."""
    chosen = set(hyper.experts.split(","))
    return tuple(name for name in EXPERTS if name in chosen)


def judges(hyper: Any, round: int, rounds: int) -> bool:
    """Return whether samples are held back in a round, to judge experts by."""
    return bool(round <= hyper.gate_until * rounds)


def check(hyper: FedSubGatedHyperparameters, rounds: int) -> None:
    """Refuse an expert that is named twice."""
    named = hyper.experts.split(",")
    if len(set(named)) < len(named):
        raise ConfigError(
            f"fedsub-gated.experts: got {hyper.experts!r}, expected each once. Leave out the second"
        )
