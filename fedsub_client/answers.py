"""What clients answer to the server's messages, all who are asked for the same at once.

A device answers as a cohort of one. Nothing is written yet, see
:data:`fedsub_core.wire.exchange.Content`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedsub_client.best_so_far import best_tensors
from fedsub_client.cohort import Cohort
from fedsub_client.cohort_messages import NOTHING, write_upload
from fedsub_client.evaluation import on_target
from fedsub_client.learner import Report, State
from fedsub_core.data.stacks import select_params
from fedsub_core.data.standardise import Scaling
from fedsub_core.metrics import ClientMetrics
from fedsub_core.secure.quantise import Levels
from fedsub_core.target_errors import TargetErrors
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange, metric_record
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.exchange import Content, Instructions

#: What each client answers, in the order in which they were asked, and the state in which those who
#: were tested were, stacked; empty where nobody was.
Answers = tuple[list[Content], State]


@dataclass(frozen=True)
class Asked:
    """One client's message: its place in the cohort, what it is told beside its download, and that.

    All who are asked at once are told the same, but whether they are tested after training. With
    `levels` what is sent is one vector of whole numbers (:mod:`fedsub_core.secure`).
    """

    place: int
    told: Instructions
    received: Bundle
    levels: Levels | None = None


def train(cohort: Cohort, asked: Sequence[Asked]) -> Answers:
    """Take in the downloads, do the round's local work; answer uploads, reports and metrics.

    There is no report where a method has none, and metrics only where they are asked for.
    """
    if not asked:
        return [], {}
    told, places = asked[0].told, [one.place for one in asked]
    received = [one.received for one in asked]
    uploads, reports = cohort.fit(told.turn, told.scaling, places, received)
    tested = [replace(one, received=NOTHING) for one in asked if one.told.also_evaluate]
    metrics, state = evaluate(cohort, tested)
    of = dict(zip([one.place for one in tested], metrics, strict=True))
    answers = list[Content]()
    for one, upload, report in zip(asked, uploads, reports, strict=True):
        payload = write_upload(cohort, one.place, upload, one.received, told.turn.round, one.levels)
        answers.append(trained(payload, report, of.get(one.place, {})))
    return answers, state


def trained(payload: object, report: Report, metrics: Content) -> Content:
    """Return the answer of a client that trained; `metrics` as :func:`evaluate` has them."""
    said = {exchange.REPORT: dict(report)} if report else {}
    return {exchange.PAYLOAD: payload, **said, **metrics}


def evaluate(cohort: Cohort, asked: Sequence[Asked]) -> Answers:
    """Answer the metrics of the personal models, as they are after the downloads."""
    if not asked:
        return [], {}
    told, places = asked[0].told, [one.place for one in asked]
    received = [one.received for one in asked]
    state = cohort.personalised(told.turn, told.scaling, places, received)
    found = tested(cohort, told.turn, told.scaling, places, state)
    return [{exchange.METRICS: metric_record.metric_values(metrics)} for metrics in found], state


def tested(
    cohort: Cohort, turn: Turn, scaling: Scaling | None, places: Sequence[int], state: State
) -> Sequence[ClientMetrics | TargetErrors]:
    """Return the metrics of the clients at `places` in a state, on their test parts."""
    if (target := cohort.card.target) is None:
        return cohort.evaluate(turn, scaling, places, state).clients()
    best = select_params(best_tensors(cohort.state), places)
    how = turn, scaling, places, state
    return on_target(cohort.learner, cohort.data, *how, best, target.half)
