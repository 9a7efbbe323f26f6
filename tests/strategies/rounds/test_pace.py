"""Who keeps a round waiting is asked less and less often; its other clients say who does."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, MessageType

from fedsub_core.wire import handshake
from strategies.rounds.pace import (
    LEAST_SECONDS,
    RECOVERY_SECONDS,
    SLACK,
    Pace,
    most_of,
)
from strategies.rounds.patience import Patience

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..slow_link import SlowLink
from ..tampered_grid import Reply
from ..waiting_clock import WaitingClock

#: The largest client is node 1, so p2 of four is node 3.
P2 = 3
USUAL = 4.0


def pace(*took: float, most: int = 3, timeout: float = 600.0) -> Pace:
    people = {f"p{i + 1}": seconds for i, seconds in enumerate(took)}
    return Pace(timeout, 4, most, quorum=2, took=people)


@pytest.mark.parametrize(
    ("took", "limit", "slow"),
    [
        ((1, 1), math.inf, set()),  # of fewer than most nobody knows
        ((1, 1, 1, 14), LEAST_SECONDS, set()),
        ((1, 1, 1, 16), LEAST_SECONDS, {"p4"}),
        ((22, 1, 1, 1), LEAST_SECONDS, {"p1"}),
        ((10, 10, 10, 39), 40, set()),
        ((10, 10, 10, 41), 40, {"p4"}),
        ((0, 10, 10, 41), 40, {"p4"}),  # one that answers at once hurries nobody
        ((500, 500, 500, 590), 2000, set()),  # all train longer
    ],
)
def test_slow_is_who_takes_several_times_as_long_as_most(
    took: tuple[float, ...], limit: float, slow: set[str]
) -> None:
    assert SLACK == 4
    assert pace(*took).limit == limit and pace(*took).slow == slow


def test_who_never_answered_gets_the_time_that_recovering_takes() -> None:
    unknown = {"p9"}
    assert pace(4, 4).deadline(unknown, {}) == 600
    assert pace(4, 4, 4).deadline(unknown, {}) == RECOVERY_SECONDS
    assert pace(4, 4, 4).deadline(unknown | {"p4"}, {"p4": 1.0}) == RECOVERY_SECONDS
    assert pace(100, 100, 100).deadline(unknown, {}) == 400
    assert pace(200, 200, 200).deadline(unknown, {}) == 600
    assert pace(4, 4, 4, timeout=25).deadline(unknown, {}) == 25
    assert pace(4, 4, 4, most=0).deadline(unknown, {}) == 600
    assert pace(4, 4, 400, most=0).slow == set()


@pytest.mark.parametrize(
    ("usual", "slowness", "deadline"),
    [
        (4, 1.0, LEAST_SECONDS),
        (20, 1.0, 40),
        (20, 0.5, 40),  # who is quick is given no less than others
        (20, 3.0, 120),
        (4, 1000.0, RECOVERY_SECONDS),  # however slow it was, no longer than who is unknown
    ],
)
def test_whose_pace_is_known_gets_twice_the_time_that_it_needs(
    usual: float, slowness: float, deadline: float
) -> None:
    assert pace(*3 * [usual]).deadline({"p4"}, {"p4": slowness}) == deadline


def test_who_may_look_late_gets_so_much_longer() -> None:
    quick = replace(pace(1, 1, 1, 20), late={"p4": 6.0})
    assert quick.slow == frozenset() and replace(quick, late={"p4": 4.0}).slow == {"p4"}
    assert quick.deadline({"p4"}, {"p4": 1.0}) == LEAST_SECONDS + 6
    # It makes no round longer whose clients work for long, nor one in which others are awaited.
    assert quick.deadline({"p3"}, {"p3": 1.0}) == LEAST_SECONDS
    assert replace(pace(20, 20, 20), late={"p4": 6.0}).deadline({"p4"}, {"p4": 1.0}) == 40


def test_who_is_not_offline_sets_the_pace_if_that_is_a_quorum() -> None:
    assert pace(10, 10).limit_without(0) == math.inf
    assert pace(10, 10).limit_without(1) == 40
    assert pace(10).limit_without(2) == math.inf
    assert pace(2, 2).limit_without(2) == LEAST_SECONDS
    assert pace(10).limit_without(3) == math.inf  # two are the quorum
    assert pace(10, 10, most=0).limit_without(2) == math.inf


@pytest.mark.parametrize(
    ("asked", "quorum", "most"), [(1, 0.5, 1), (2, 0.5, 2), (3, 0, 2), (4, 0.5, 3), (10, 0.9, 9)]
)
def test_most_are_more_than_half_and_the_quorum(asked: int, quorum: float, most: int) -> None:
    assert most_of(asked, quorum) == most


def test_who_is_slow_in_round_after_round_rests_a_round_later_than_the_silent() -> None:
    patience, asked = Patience(), []
    for round in range(1, 40):
        if not patience.resting(["p", "other"], round):
            asked.append(round)
            patience.note(round, {"p": True}, slow={"p"})
    assert asked == [1, 2, 3, 5, 9, 17, 33]
    patience.forget("p")
    assert patience == Patience()
    # Slow and of no use is of no use; slow in what it was not asked to train for counts, too.
    patience.note(1, {"p": False}, slow={"p"})
    patience.note(2, {"p": False}, slow={"p"})
    assert patience.again == {"p": 4}
    patience.note(1, {}, slow={"q"})
    assert patience.failures["q"] == 1


@pytest.fixture
def slow_run(
    people: MakePeople, run_method: RunMethod
) -> Callable[..., tuple[FinishedRun, list[float]]]:
    """Run rounds in which node P2 answers after so many seconds, the others after USUAL.

    With `turns` these are P2's seconds, one answer after the other.
    """

    def run(
        kind: str = MessageType.TRAIN,
        seconds: float = 22.0,
        turns: Iterator[float] | None = None,
        **keys: Any,
    ) -> tuple[FinishedRun, list[float]]:
        clock, ends = WaitingClock(), [1000.0]

        def takes(message: Message) -> float:
            told = message.metadata
            if told.message_type == MessageType.QUERY:
                return 0.0
            if (told.dst_node_id, told.message_type) != (P2, kind):
                return USUAL
            return seconds if turns is None else next(turns)

        keys = {"rounds": 10, "round_timeout": 25.0, "quorum": 0.5} | keys
        finished = run_method(
            people(samples=6),
            "fedavg",
            link=partial(SlowLink, clock=clock, seconds=takes),
            after_round=lambda round, run: ends.append(clock.now),
            **keys,
        )
        return finished, [after - before for before, after in pairwise(ends)]

    return run


@pytest.mark.parametrize("kind", [MessageType.TRAIN, MessageType.EVALUATE])
def test_who_answers_just_in_time_for_ever_rests_ever_longer(
    slow_run: Callable[..., tuple[FinishedRun, list[float]]], kind: str
) -> None:
    run, seconds = slow_run(kind, rounds=11)
    waits = [round for round, s in enumerate(seconds, start=1) if s > 20]
    # Who rested for three rounds, and may have looked late for its message, is not slow at once.
    late = [9] if kind == MessageType.TRAIN else []
    assert waits == [1, 2, 3, 5, 9, *(round + 1 for round in late)]
    assert set(run.metric("slow_replies")) == {
        (round, "p2") for round in waits if round not in late
    }
    assert [round for round, _ in run.metric("resting")] == [
        n for n in range(1, 12) if n not in waits
    ]
    # What it sent in time is used all the same.
    assert [r for r, client in run.metric("bytes_up_sent") if client == "p2"] == waits
    assert run.metric("missing_replies") == {}


def test_who_is_slow_and_quick_by_turns_rests_ever_longer(
    slow_run: Callable[..., tuple[FinishedRun, list[float]]],
) -> None:
    turns = iter(100 * [22.0, USUAL])
    run, seconds = slow_run(turns=turns, rounds=24)
    slow = [round for round, s in enumerate(seconds, start=1) if s > 20]
    assert slow == [1, 3, 5, 7, 10, 15, 20]
    assert set(run.metric("slow_replies")) == {(round, "p2") for round in slow}
    assert [round for round, _ in run.metric("resting")][:3] == [8, 11, 12]


def test_a_steady_device_that_takes_a_few_times_as_long_is_asked_in_every_round(
    slow_run: Callable[..., tuple[FinishedRun, list[float]]],
) -> None:
    run, seconds = slow_run(seconds=14.0)
    assert len(run.metric("bytes_up_sent")) == 40 and min(seconds) > 14
    assert run.metric("slow_replies") == run.metric("resting") == {}


def test_nobody_is_waited_for_long_once_most_have_answered(
    slow_run: Callable[..., tuple[FinishedRun, list[float]]],
) -> None:
    run, seconds = slow_run(seconds=590.0, rounds=2, round_timeout=600.0)
    assert run.metric("missing_replies") == {(1, "p2"): 1, (2, "p2"): 1}
    assert all(RECOVERY_SECONDS < s < RECOVERY_SECONDS + 3 * USUAL for s in seconds)
    # As long as the quorum lacks it, it is waited for.
    run, seconds = slow_run(seconds=590.0, rounds=1, round_timeout=600.0, quorum=1.0)
    assert run.metric("missing_replies") == {} and seconds[0] > 590


def test_simulated_people_are_never_slow(
    slow_run: Callable[..., tuple[FinishedRun, list[float]]],
) -> None:
    """They take turns on one machine, and their results must follow from the seed alone."""

    def simulated(reply: Reply) -> Message:
        if reply.kind == MessageType.QUERY:
            record: ConfigRecord = reply.message.content.config_records[handshake.HANDSHAKE]
            record["people"], record["nodes"] = 4, 4
        return reply.message

    run, _ = slow_run(tamper=simulated, rounds=4)
    assert run.metric("slow_replies") == run.metric("resting") == {}
    plain, _ = slow_run(tamper=simulated, rounds=4, seconds=USUAL)
    for name, tensor in plain.states[-1].items():
        assert torch.equal(run.states[-1][name], tensor), name
