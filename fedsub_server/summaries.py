"""Summaries of methods' runs, from their databases: means over clients, and intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from fedsub_core.methods.fedsub import PROTOTYPE_DELTA
from fedsub_core.metric_names import BEST_ROUND, CAPACITY, OWN_HEADS
from fedsub_server.convergence import last_fall
from fedsub_server.method_summary import FEWEST, MethodSummary
from fedsub_server.remarks import by_reason, diverged, in_rounds, left_out
from fedsub_server.rundb import RunDatabase
from fedsub_server.twins import Scores, held_against

#: What is counted of messages, up, down and for an evaluation.
_MESSAGES = ("up_papers", "up_union", "up_sent", "up_flower", "down_sent", "down_flower",
             "evaluation_sent", "evaluation_flower")  # fmt: skip
#: Of each option of a noise: its delta's, and what its epsilon is of.
NOISES = {
    "dp-noise": ("dp-delta", "all of one person, in the means that devices are sent"),
    "fedsub-ridge.noise": ("fedsub-ridge.noise-delta", "one sample, in the sums that devices get"),
} | {
    f"{method}.prototype-noise": (
        f"{method}.prototype-delta",
        "one person's samples of a class, in their prototype, of whoever spent most",
    )
    for method in ("fedsub", "fedsub-gated")
}


@dataclass(frozen=True)
class OverClients:
    """A metric over `n` clients: mean, half-width of its 95 % interval, how it is spread.

    ``std`` is the population's: these clients are all there are, as studies of fairness have it.
    """

    mean: float
    ci95: float | None
    p10: float
    n: int
    std: float
    min: float
    max: float


def summarise(values: Sequence[float]) -> OverClients:
    """Return mean, 95 % confidence interval (Student t) and spread of `values [clients]`.

    Fewer than :data:`FEWEST` clients have no interval (None). Leave clients without test samples
    out; a nan is kept, so that a model that diverged shows.

    Raises ValueError if there are no values.
    """
    if not len(values):
        raise ValueError("summarise: got no values, expected one for each client")
    x, n = np.asarray(values, dtype=np.float64), len(values)
    half = float(stdtrit(n - 1, 0.975) * x.std(ddof=1) / math.sqrt(n)) if n >= FEWEST else None
    spread = (float(np.percentile(x, 10)), n, float(x.std()), float(x.min()), float(x.max()))
    return OverClients(float(x.mean()), half, *spread)


def summarise_method(db: RunDatabase, local: RunDatabase | None) -> MethodSummary:
    """Summarise one method's run, named by its folder, beside the run of `local` if there is one.

    A run that has not been evaluated yet gives None where an evaluation is missing.
    """
    method, config = db.path.parent.name, json.loads(db.meta().get("config", "{}"))
    macro_f1, mae, r2, accuracy, loss = (
        by_round(db, m) for m in ("macro_f1", "mae", "r2", "accuracy", "loss")
    )
    own = by_round(db, OWN_HEADS[0])
    tested = macro_f1 or mae
    last = max(tested, default=-1)
    reached = _over_clients(tested, last)
    absent = left_out(db, config, tested[last], last) if reached else {}
    evaluated = {"macro_f1": macro_f1, "accuracy": accuracy, "mae": mae, "r2": r2, "loss": loss}
    by_capacity = {name: each[last] for name, each in evaluated.items() if last in each}
    alone = None
    if local is not None:
        alone = Scores(_scores(local), by_round(local, OWN_HEADS[0]))
    return MethodSummary(
        method=method,
        tested=config.get(f"{method}.tested"),
        encoding=_encoding(config),
        rounds=db.last_round(),
        evaluated_round=last if reached else None,
        best_by=config.get("best-by"),
        best_round=_median(by_round(db, BEST_ROUND).get(last, {}).values()),
        clients=reached.n if reached else 0,
        people=len(absent) + (reached.n if reached else 0),
        left_out=by_reason(absent),
        diverged=diverged(loss.get(last, {})),
        in_rounds=in_rounds(db, method),
        **_spread("macro_f1", _over_clients(macro_f1, last), "ci95", "p10", "std", "min", "max"),
        **_spread("mae", _over_clients(mae, last), "ci95", "std", "min", "max"),
        **_spread("r2", _over_clients(r2, last), "ci95"),
        r2_clients=len(r2.get(last, {})),
        rmse=_mean_in(db, "rmse", last),
        **_spread("accuracy", _over_clients(accuracy, last), "std", "min", "max"),
        weighted_f1=_mean_in(db, "weighted_f1", last),
        loss=_mean(loss.get(last, {}).values()),
        sparsity_weights=_of_the_run(db, "sparsity_weights"),
        sparsity_all=_of_the_run(db, "sparsity_all"),
        **_sizes(db),
        by_capacity=_by_capacity(by_round(db, CAPACITY).get(last, {}), by_capacity),
        loss_fall=last_fall(loss),
        **_of_own_heads(db, own, last),
        **asdict(held_against(method, Scores(_scores(db), own), alone)),
        **reported_epsilon(db, config, method)._asdict(),
        seconds=db.seconds(),
        server_milliseconds=None if (took := db.server_seconds()) is None else 1000 * took,
        memory=db.memory(),
        backend=db.backend(),
    )


def _scores(db: RunDatabase) -> dict[int, dict[str, float]]:
    """Return the scores by which people are better or worse off: macro F1, or the error less."""
    errors = by_round(db, "mae")
    less = {round: {c: -value for c, value in each.items()} for round, each in errors.items()}
    return less or by_round(db, "macro_f1")


def _over_clients(values: Mapping[int, Mapping[str, float]], round: int) -> OverClients | None:
    return summarise(list(values[round].values())) if round in values else None


def _spread(name: str, over: OverClients | None, *more: str) -> dict[str, Any]:
    """Return a mean, and how it is spread, as fields of a summary; None of nobody."""
    fields = {name: "mean"} | {f"{name}_{one}": one for one in more}
    return {field: over and getattr(over, one) for field, one in fields.items()}


def _of_own_heads(
    db: RunDatabase, macro_f1: Mapping[int, Mapping[str, float]], round: int
) -> dict[str, Any]:
    """Return the scores of people's own heads, as fields of a summary."""
    alone = _over_clients(macro_f1, round)
    return {
        "own_heads_clients": alone.n if alone else 0,
        **_spread("own_heads_macro_f1", alone, "ci95", "p10"),
        "own_heads_weighted_f1": _mean_in(db, OWN_HEADS[1], round),
        "own_heads_loss": _mean_in(db, OWN_HEADS[2], round),
    }


def _sizes(db: RunDatabase) -> dict[str, Any]:
    """Return the bytes of a client's messages of a round as fields of a summary."""
    full = db.mean("bytes_full_model")
    sizes = {name: db.mean(f"bytes_{name}") for name in _MESSAGES}
    ratios = {f"full_models_{name}": _ratio(size, full) for name, size in sizes.items()}
    return {"bytes_up": sizes["up_sent"], **ratios}


def _by_capacity(
    capacities: Mapping[str, float], reached: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return the people of each capacity, the greatest first: their number, and their means.

    A mean that is no number is left out.
    """
    by_share: dict[str, dict[str, float]] = {}
    tested = reached.get("macro_f1") or reached.get("mae", {})
    for share in sorted({capacities[c] for c in tested if c in capacities}, reverse=True):
        people = [client for client in tested if capacities.get(client) == share]
        means = {
            name: _mean(each[c] for c in people if c in each) for name, each in reached.items()
        }
        by_share[f"{share:g}"] = {"people": len(people)} | {
            name: mean for name, mean in means.items() if mean is not None and math.isfinite(mean)
        }
    return by_share


def _encoding(config: dict[str, Any]) -> str | None:
    up, down = (config.get(f"{way}load-encoding") for way in ("up", "down"))
    if up is None or down is None:
        return None
    return f"{up} up and down" if up == down else f"{up} up, {down} down"


def by_round(db: RunDatabase, metric: str) -> dict[int, dict[str, float]]:
    """Return ``{round: {client: value}}``, without clients that have no test sample."""
    empty = {(row.round, row.client) for row in db.metrics("examples") if row.value == 0}
    rounds: dict[int, dict[str, float]] = {}
    for row in db.metrics(metric):
        if (row.round, row.client) not in empty:
            rounds.setdefault(row.round, {})[row.client] = row.value
    return rounds


def _of_the_run(db: RunDatabase, metric: str) -> float | None:
    """Return the newest value of a metric of the run as a whole."""
    values = [row.value for row in db.metrics(metric) if row.client == "" and row.label is None]
    return values[-1] if values else None


def _mean(values: Iterable[float]) -> float | None:
    kept = list(values)
    return float(np.mean(kept)) if kept else None


def _mean_in(db: RunDatabase, metric: str, round: int) -> float | None:
    return _mean(by_round(db, metric).get(round, {}).values())


def _median(values: Iterable[float]) -> float | None:
    kept = list(values)
    return float(np.median(kept)) if kept else None


def _ratio(value: float | None, full: float | None) -> float | None:
    return value / full if value is not None and full else None


class Epsilon(NamedTuple):
    """The epsilon that noise has spent, its delta, and what it is of; all None without noise."""

    epsilon: float | None = None
    epsilon_delta: float | None = None
    epsilon_of: str | None = None


def reported_epsilon(db: RunDatabase, config: Mapping[str, Any], method: str) -> Epsilon:
    """Return the greatest epsilon that a run has reported."""
    # Of each person the newest: who was silent since then has spent it all the same.
    last = {r.client: r.value for r in db.metrics("epsilon") if math.isfinite(r.value)}
    for option, (delta, of) in NOISES.items():
        mine = option.partition(".")[0] in (method, option)
        if last and mine and config.get(option) not in (None, 0, "none"):
            # Of fedsub-gated it is no option.
            return Epsilon(max(last.values()), config.get(delta, PROTOTYPE_DELTA), of)
    return Epsilon()
