"""Summaries of methods' runs, from their databases: means over clients, and intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from fedsub_core.metric_names import BEST_ROUND, CAPACITY, OWN_HEADS
from fedsub_server.convergence import last_fall
from fedsub_server.method_summary import FEWEST, MethodSummary
from fedsub_server.remarks import by_reason, diverged, left_out
from fedsub_server.reported_epsilon import reported_epsilon
from fedsub_server.round_remarks import in_rounds
from fedsub_server.rundb import RunDatabase
from fedsub_server.twins import Scores, held_against


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

    Raises
    ------
    ValueError
        If there are no values.
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
    method = db.path.parent.name
    macro_f1, weighted_f1, loss, accuracy = (
        by_round(db, m) for m in ("macro_f1", "weighted_f1", "loss", "accuracy")
    )
    own, own_weighted, own_loss = (by_round(db, name) for name in OWN_HEADS)
    last = max(macro_f1, default=-1)
    alone = summarise(list(own[last].values())) if last in own else None
    reached = summarise(list(macro_f1[last].values())) if macro_f1 else None
    right = summarise(list(accuracy[last].values())) if last in accuracy else None
    full_model = _per_client_and_round(db, "bytes_full_model")
    papers, union, sent = (
        _per_client_and_round(db, f"bytes_up_{what}") for what in ("papers", "union", "sent")
    )
    flower, down, flower_down, evaluation, flower_evaluation = (
        _per_client_and_round(db, f"bytes_{what}")
        for what in (
            "up_flower",
            "down_sent",
            "down_flower",
            "evaluation_sent",
            "evaluation_flower",
        )
    )
    config = json.loads(db.meta().get("config", "{}"))
    absent = left_out(db, config, macro_f1[last], last) if reached else {}
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
        macro_f1=reached.mean if reached else None,
        macro_f1_ci95=reached.ci95 if reached else None,
        macro_f1_p10=reached.p10 if reached else None,
        macro_f1_std=reached.std if reached else None,
        macro_f1_min=reached.min if reached else None,
        macro_f1_max=reached.max if reached else None,
        accuracy=right.mean if right else None,
        accuracy_std=right.std if right else None,
        accuracy_min=right.min if right else None,
        accuracy_max=right.max if right else None,
        weighted_f1=_mean(weighted_f1.get(last, {}).values()),
        loss=_mean(loss.get(last, {}).values()),
        sparsity_weights=_of_the_run(db, "sparsity_weights"),
        sparsity_all=_of_the_run(db, "sparsity_all"),
        bytes_up=sent,
        full_models_up_papers=_ratio(papers, full_model),
        full_models_up_union=_ratio(union, full_model),
        full_models_up_sent=_ratio(sent, full_model),
        full_models_up_flower=_ratio(flower, full_model),
        full_models_down_sent=_ratio(down, full_model),
        full_models_down_flower=_ratio(flower_down, full_model),
        full_models_evaluation_sent=_ratio(evaluation, full_model),
        full_models_evaluation_flower=_ratio(flower_evaluation, full_model),
        by_capacity=_by_capacity(
            by_round(db, CAPACITY).get(last, {}),
            {
                name: each[last]
                for name, each in (("macro_f1", macro_f1), ("accuracy", accuracy), ("loss", loss))
                if last in each
            },
        ),
        loss_fall=last_fall(loss),
        own_heads_clients=alone.n if alone else 0,
        own_heads_macro_f1=alone.mean if alone else None,
        own_heads_macro_f1_ci95=alone.ci95 if alone else None,
        own_heads_macro_f1_p10=alone.p10 if alone else None,
        own_heads_weighted_f1=_mean(own_weighted.get(last, {}).values()),
        own_heads_loss=_mean(own_loss.get(last, {}).values()),
        **asdict(
            held_against(
                method,
                Scores(macro_f1, own),
                None
                if local is None
                else Scores(by_round(local, "macro_f1"), by_round(local, OWN_HEADS[0])),
            )
        ),
        **reported_epsilon(db, config, method)._asdict(),
        seconds=db.seconds(),
        server_milliseconds=None if (took := db.server_seconds()) is None else 1000 * took,
        memory=db.memory(),
        backend=db.backend(),
    )


def _by_capacity(
    capacities: Mapping[str, float], reached: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return how many people have each capacity, the greatest first, and the means they reached.

    A mean that is no number is left out.
    """
    found: dict[str, dict[str, float]] = {}
    tested = reached.get("macro_f1", {})
    for share in sorted({capacities[c] for c in tested if c in capacities}, reverse=True):
        people = [client for client in tested if capacities.get(client) == share]
        means = {name: _mean(each[c] for c in people) for name, each in reached.items()}
        found[f"{share:g}"] = {"people": len(people)} | {
            name: mean for name, mean in means.items() if mean is not None and math.isfinite(mean)
        }
    return found


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


def _per_client_and_round(db: RunDatabase, metric: str) -> float | None:
    # Round 0 is the handshake and no round.
    return _mean(row.value for row in db.metrics(metric) if row.round > 0)


def _mean(values: Iterable[float]) -> float | None:
    kept = list(values)
    return float(np.mean(kept)) if kept else None


def _median(values: Iterable[float]) -> float | None:
    kept = list(values)
    return float(np.median(kept)) if kept else None


def _ratio(value: float | None, full: float | None) -> float | None:
    return value / full if value is not None and full else None
