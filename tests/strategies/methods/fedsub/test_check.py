"""What FedSub demands of an upload beyond what its card declares."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fedsub.testing.halves import next_from, next_round
from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.methods.fedsub import CLASSES, MASKS, PROTOTYPES, SCORE
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part
from strategies.parts.roster import Roster

from ...finished_run import MakePeople, RunMethod
from .by_hand import mask, strategy_of, upload_of

Change = Callable[[Bundle], Bundle]


def with_tensors(upload: Bundle, **tensors: Part) -> Bundle:
    return replace(upload, tensors={**upload.tensors, **tensors})


def scored(*scores: float) -> Change:
    return lambda upload: with_tensors(upload, **{SCORE: Floats(np.array(scores, np.float32))})


def masked(label: int, unit: int, layer: str = "linear1") -> Change:
    def change(upload: Bundle) -> Bundle:
        masks = upload.bits(layer + MASKS).copy()
        masks[label, unit] = True
        return with_tensors(upload, **{layer + MASKS: Bits(masks)})

    return change


def prototypes_of(*labels: int) -> Change:
    part = Floats.rows(mask(3, labels), np.ones((len(labels), 2), np.float32))
    return lambda upload: with_tensors(upload, **{PROTOTYPES: part})


def of_nobody(upload: Bundle) -> Bundle:
    return upload_of([], version=7)


def without_prototypes(upload: Bundle) -> Bundle:
    tensors = {name: part for name, part in upload.tensors.items() if name != PROTOTYPES}
    return replace(upload, tensors=tensors)


def as_it_is(upload: Bundle) -> Bundle:
    return upload


def fewer_masks(upload: Bundle) -> Bundle:
    """Rows that no class selected are of no use, but of no harm."""
    masks = np.zeros_like(upload.bits("linear1" + MASKS))
    return with_tensors(upload, **{"linear1" + MASKS: Bits(masks)})


@pytest.mark.parametrize("change", [as_it_is, fewer_masks, scored(0, 0, 0), scored(1, 0, 0.5)])
def test_a_fitting_upload_passes(change: Change) -> None:
    strategy = strategy_of()
    assert strategy.state is not None
    strategy.half.check(
        strategy.state,
        next_round(strategy),
        next_from(strategy, "anna"),
        change(upload_of([0, 2], version=7)),
    )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (of_nobody, "classes: got none, expected at least one"),
        (scored(1, 0, -0.5), "scores: got [1.0, 0.0, -0.5], expected 0 to 1"),
        (scored(1, 0.25, 1), "scores: got [1.0, 0.25, 1.0], expected 0 to 1"),
        (scored(1.5, 0, 1), "scores: got [1.5, 0.0, 1.0], expected 0 to 1"),
        (scored(1, -1, 1), "scores: got [1.0, -1.0, 1.0], expected 0 to 1"),
        (masked(1, 0), "masks of layer linear1: got other units, expected of classes held"),
        (masked(0, 3), "masks of layer linear1: got other units, expected of classes held"),
        (masked(2, 1, "linear2"), "masks of layer linear2: got other units"),
        (prototypes_of(0), "prototypes of classes: got [0], expected all of [0, 2]"),
        (prototypes_of(0, 1, 2), "prototypes of classes: got [0, 1, 2], expected all of [0, 2]"),
        (prototypes_of(1), "prototypes of classes: got [1], expected all of [0, 2]"),
        (prototypes_of(), "prototypes of classes: got [], expected all of [0, 2]"),
        (without_prototypes, "prototypes of classes: got [], expected all of [0, 2]"),
    ],
)
def test_what_does_not_fit_is_refused(change: Change, what: str) -> None:
    strategy = strategy_of()
    strategy.finished_rounds = 4
    assert strategy.state is not None
    with pytest.raises(MessageRefused) as caught:
        strategy.half.check(
            strategy.state,
            next_round(strategy),
            next_from(strategy, "anna"),
            change(upload_of([0, 2], version=7)),
        )
    assert str(caught.value).startswith(f"client 'anna', round 5: {what}")


@pytest.mark.parametrize(
    ("client", "labels", "version", "known"),
    [
        ("anna", [0, 2], 7, True),
        ("anna", [0, 2], 8, False),
        ("anna", [0, 2], 0, False),
        ("anna", [0], 7, False),
        ("anna", [0, 1, 2], 7, False),
        ("anna", [0, 1], 7, False),
        ("ben", [0, 2], 7, False),
        ("ben", [0, 2], 9, True),
        ("cleo", [0, 2], 7, False),
        ("dora", [0, 2], 7, False),
        ("dora", [0, 2], 0, False),
    ],
)
def test_prototypes_may_be_left_out_where_the_server_holds_their_version(
    client: str, labels: list[int], version: int, known: bool
) -> None:
    strategy = strategy_of()
    # What dora sent is of no version, so nothing names it.
    nameless = replace(upload_of([0, 2], version=7), version=0)
    known_uploads = {
        "anna": upload_of([0, 2], version=7),
        "ben": upload_of([0, 2], version=9),
        "dora": nameless,
    }
    assert strategy.state is not None
    state, _ = strategy.half.aggregate(strategy.state, strategy.round(Turn(1, 2, 0)), known_uploads)
    upload = replace(upload_of(labels), version=version)
    assert PROTOTYPES not in upload.tensors and upload.bits(CLASSES).sum() == len(labels)
    if known:
        strategy.half.check(state, next_round(strategy), next_from(strategy, client), upload)
        return
    with refused(MessageRefused, what="prototypes of classes", got="[]", expected="all"):
        strategy.half.check(state, next_round(strategy), next_from(strategy, client), upload)


@pytest.mark.parametrize("labels", [(0,), (1,), (0, 1, 2)])
def test_prototypes_that_are_sent_are_of_all_classes_held_whatever_the_server_holds(
    labels: tuple[int, ...],
) -> None:
    strategy = strategy_of()
    assert strategy.state is not None
    fitting = upload_of([0, 2], version=7)
    state, _ = strategy.half.aggregate(
        strategy.state, strategy.round(Turn(1, 2, 0)), {"anna": fitting}
    )
    strategy.half.check(state, next_round(strategy), next_from(strategy, "anna"), fitting)
    with pytest.raises(MessageRefused, match=r"expected all of \[0, 2\]"):
        strategy.half.check(
            state,
            next_round(strategy),
            next_from(strategy, "anna"),
            prototypes_of(*labels)(fitting),
        )


class ReadRosters:
    """Counts how often a roster is read out of a state."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = Roster.of

        def counted(tensor: Any) -> Roster:
            self.count += 1
            return real(tensor)

        monkeypatch.setattr(Roster, "of", counted)


def test_the_roster_is_read_once_however_many_uploads_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategy, clients = strategy_of(), [f"p{i}" for i in range(40)]
    uploads = {client: upload_of([0], version=7) for client in clients}
    assert strategy.state is not None
    state, _ = strategy.half.aggregate(strategy.state, strategy.round(Turn(1, 2, 0)), uploads)
    reads = ReadRosters(monkeypatch)
    for client in clients:
        strategy.half.check(
            state,
            next_round(strategy),
            next_from(strategy, client),
            replace(upload_of([0]), version=7),
        )
    assert reads.count == 1
    state, _ = strategy.half.aggregate(state, strategy.round(Turn(2, 2, 0)), uploads)
    before = reads.count
    for client in clients:
        strategy.half.check(
            state,
            next_round(strategy),
            next_from(strategy, client),
            replace(upload_of([0]), version=7),
        )
    assert reads.count == before + 1


def test_a_round_reads_rosters_as_often_for_six_clients_as_for_two(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = ReadRosters(monkeypatch)
    found = []
    for clients in (2, 6):
        counts: list[int] = []
        run = run_method(
            people(((0, 1, 2),) * clients, samples=8),
            rounds=3,
            after_round=lambda *_, counts=counts: counts.append(reads.count),
        )
        # From the second round on, prototypes are left out, so what is held is looked up.
        assert "prototypes" not in run.grid.uploads[2, "p1"].names and run.refusals == {}
        found.append([later - earlier for earlier, later in pairwise(counts)])
    assert found[0] == found[1] and max(found[0]) <= 3


def test_scores_that_count_samples_end_at_the_samples() -> None:
    strategy = strategy_of(score="samples")
    assert strategy.state is not None
    upload = upload_of([0, 2], version=7)
    count = upload.examples
    strategy.half.check(
        strategy.state,
        next_round(strategy),
        next_from(strategy, "anna"),
        scored(count, 0, 1)(upload),
    )
    with pytest.raises(MessageRefused, match=f"expected 0 to {count}"):
        strategy.half.check(
            strategy.state,
            next_round(strategy),
            next_from(strategy, "anna"),
            scored(count + 1, 0, 1)(upload),
        )
