"""A round that led most people astray is undone, and who moved it is left out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsub_core.config.robust import RobustSettings
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import mlp
from fedsub_core.placement import Placement
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Bundle, Floats, bits, dense
from strategies.rounds.round import HeldModels, Round
from strategies.rounds.undoing import Undoing, made_by, opposition, parts_of_move

SENDS = {"body": dense((2,))}
START = {"body": torch.zeros(2)}
#: The state before the first round.
FIRST = {"body": torch.full((2,), 0.5)}
EVERYBODY = ("a", "b", "c", "d", "evil")


def begin() -> dict[str, torch.Tensor]:
    return FIRST


def sent(*values: float, examples: int = 1) -> Bundle:
    return Bundle(examples, tensors={"body": Floats(np.array(values, np.float32))})


def plain(found: tuple[dict[str, torch.Tensor], list[str]] | None) -> object:
    """Return a state as numbers, and who is left out."""
    if found is None:
        return None
    return {name: tensor.tolist() for name, tensor in found[0].items()}, found[1]


def round_of(uploads: dict[str, Bundle], share: float = 0.4, filters: str = "none") -> Undoing:
    undoing = Undoing(RobustSettings.parse(filters, share))
    noted(undoing, START, uploads)
    return undoing


def noted(undoing: Undoing, state: dict[str, torch.Tensor], uploads: dict[str, Bundle]) -> None:
    undoing.note(state, uploads, dict.fromkeys(uploads, sent(0, 0)), SENDS)


HONEST = {"a": sent(1, 0.5), "b": sent(1, -0.5), "c": sent(1, 0), "d": sent(0.9, 0)}


def test_parts_are_projections_on_the_weighted_mean() -> None:
    """Of (1, 0), (1, 0) and (0, 2) it is (2, 2) / 3: parts 2 / 9, 2 / 9 and 4 / 9 of 8 / 9."""
    moves = {"a": [1, 0], "b": [1, 0], "c": [0, 2]}
    arrays = {client: np.array(move, np.float32) for client, move in moves.items()}
    even = dict.fromkeys(moves, 5.0)
    clip, none = (RobustSettings.parse(one, 0.2) for one in ("clip", "none"))
    assert parts_of_move(arrays, even, none) == pytest.approx({"a": 2 / 9, "b": 2 / 9, "c": 4 / 9})
    # As in a mean the weight is three times the median's at most, and of three people nobody adds
    # more than the median: (0, 1).
    heavy = parts_of_move(arrays, even | {"c": 1e12}, clip)
    assert heavy == pytest.approx({"a": 2 / 25, "b": 2 / 25, "c": 1 / 25})
    free = parts_of_move(arrays, even | {"c": 1e12}, none)
    assert free == pytest.approx({"a": 2 / 25, "b": 2 / 25, "c": 36 / 25})
    assert parts_of_move({}, {}, clip) == {}


def test_opposition_is_in_cosines() -> None:
    """Of (2, 0), (3, 0) and (-1, 0): 1 - 1 = 0 of either pair's, 1 + 1 of the last."""
    moves = {"a": [2, 0], "b": [3, 0], "c": [-1, 0]}
    arrays = {client: np.array(move, np.float32) for client, move in moves.items()}
    assert opposition(arrays) == pytest.approx({"a": 0, "b": 0, "c": 2})
    assert opposition({}) == {}


def test_who_goes_back_as_far_as_one_of_the_others_is_found() -> None:
    """It makes no part of the move: those who go on do, in one round one of them more than half."""
    uploads = {"a": sent(1.5, 0.2), "b": sent(0.7, -0.1), "evil": sent(-1, 0)}
    undoing = round_of(uploads)
    for _ in range(2):
        noted(undoing, START, uploads | {"b": sent(1.4, 0)})
    assert plain(undoing.undo((), begin)) == plain((START, ["evil"]))


def test_who_went_the_other_way_with_all_might_is_found() -> None:
    undoing = round_of(HONEST | {"evil": sent(-500, 0, examples=10**9)})
    assert undoing.broken({"a", "b", "c"}, EVERYBODY)
    assert not undoing.broken({"a", "b"}, EVERYBODY)  # not most of five
    assert plain(undoing.undo((), begin)) == plain((START, ["evil"]))


def test_of_what_is_clipped_two_together_are_found() -> None:
    """Honest moves sum to 2.9 of about 1 each, bounded hostile ones to -3 each."""
    evil = sent(-500, 0)
    uploads = {client: HONEST[client] for client in "abc"} | {"x": evil, "y": evil}
    assert plain(round_of(uploads, filters="clip").undo((), begin)) == plain((START, ["x", "y"]))


def test_nobody_is_left_out_where_nobody_stands_out() -> None:
    """A rate at which everybody's training diverges is nobody's fault."""
    undoing = round_of({client: sent(100, 1) for client in "abcd"})
    assert undoing.broken(set("abcd"), EVERYBODY)
    assert undoing.undo((), begin) is None


def test_no_more_are_left_out_than_may_be_malicious() -> None:
    uploads = HONEST | {"evil": sent(-500, 0, examples=10**9)}
    assert plain(round_of(uploads, share=0.2).undo((), begin)) == plain((START, ["evil"]))
    assert round_of(uploads, share=0.2).undo({"earlier"}, begin) == (FIRST, [])  # nobody more
    assert plain(round_of(uploads, share=0.4).undo({"earlier"}, begin)) == plain((START, ["evil"]))


def test_who_did_it_is_found_rounds_later_and_all_of_it_is_undone() -> None:
    """The others need not break at once; what was before the first such round stays."""
    states = [{"body": torch.full((2,), float(i))} for i in range(4)]
    undoing = round_of(HONEST)
    noted(undoing, states[1], HONEST | {"evil": sent(-500, 0)})
    noted(undoing, states[2], HONEST)
    noted(undoing, states[3], HONEST | {"evil": sent(-1, 0)})
    assert plain(undoing.undo((), begin)) == plain((states[1], ["evil"]))
    assert undoing.broken({"a", "b", "c"}, "abcd")


def test_what_breaks_again_without_them_begins_anew_but_once() -> None:
    """Their harm was older than what is noted; after that the fault is the settings'."""
    undoing = round_of(HONEST | {"evil": sent(-500, 0)})
    assert plain(undoing.undo((), begin)) == plain((START, ["evil"]))
    assert undoing.broken({"a", "b", "c"}, "abcd")  # also if no round came since
    assert plain(undoing.undo({"evil"}, begin)) == plain((FIRST, []))
    noted(undoing, FIRST, HONEST)
    assert undoing.undo({"evil"}, begin) is None
    noted(undoing, FIRST, HONEST | {"other": sent(-500, 0)})
    assert plain(undoing.undo({"evil"}, begin)) == plain((FIRST, ["other"]))
    assert undoing.undo({"evil", "other"}, begin) == (FIRST, [])  # once for each time


def test_who_was_refused_in_the_last_round_counts_too() -> None:
    """Of three one drops out a round before the second: two of three are lost, not one of two."""
    undoing = round_of({"a": sent(1, 0), "b": sent(1, 0.1), "evil": sent(-500, 0)})
    noted(undoing, FIRST, {"b": sent(1, 0), "evil": sent(-500, 0)})
    assert undoing.broken({"a", "b"}, ("a", "b", "evil"))
    assert not undoing.broken({"a"}, ("a", "b", "evil"))
    assert not undoing.broken({"x", "y", "z"}, ("a", "b", "evil", "x", "y", "z"))  # strangers
    # Of a round of two nobody knows who led the other.
    assert plain(undoing.undo((), begin)) == plain((START, ["evil"]))


def test_who_made_most_rounds_is_left_out_not_who_made_the_first() -> None:
    undoing = round_of({"a": sent(50, 0), "b": sent(1, 0), "c": sent(1, 0)})
    state = {"body": torch.ones(2)}
    for _ in range(2):
        noted(undoing, state, HONEST | {"evil": sent(-500, 0)})
    assert plain(undoing.undo((), begin)) == plain((state, ["evil"]))


def test_of_large_states_the_last_alone_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strategies.rounds.undoing.MOST_BYTES", 8)
    undoing = round_of(HONEST)
    later = {"body": torch.ones(2)}
    noted(undoing, START, HONEST | {"evil": sent(-500, 0)})
    noted(undoing, later, HONEST)
    noted(undoing, later, HONEST | {"evil": sent(-500, 0)})
    assert plain(undoing.undo((), begin)) == plain((later, ["evil"]))
    assert plain(undoing.undo({"evil"}, begin)) == plain((FIRST, []))


def test_a_large_state_is_kept_where_the_last_one_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strategies.rounds.undoing.MOST_BYTES", 8)
    undoing, later = round_of(HONEST), {"body": torch.tensor([3.0, 4.0])}
    noted(undoing, START, HONEST)
    place = undoing._done[0].state["body"].data_ptr()
    noted(undoing, later, HONEST)
    (kept,) = undoing._done
    assert kept.state["body"].data_ptr() == place != later["body"].data_ptr()
    assert kept.state["body"].tolist() == [3.0, 4.0]
    # Of another size it gets a place of its own.
    noted(undoing, {"body": torch.ones(3)}, {})
    assert [done.state["body"].tolist() for done in undoing._done] == [[1.0, 1.0, 1.0]]


def test_what_a_round_changes_in_place_is_as_it_was() -> None:
    """FedSub's cache is one of a kind: there is no room for two of a large federation's."""
    state, undoing = {"body": torch.full((2,), 1.0)}, round_of(HONEST)
    noted(undoing, state, HONEST | {"evil": sent(-500, 0)})
    state["body"] *= 10
    found = undoing.undo((), begin)
    assert found is not None and found[0]["body"].tolist() == [1.0, 1.0]


def test_of_a_weak_device_the_first_numbers_are_those_it_holds() -> None:
    """Its move is (-500), where others' are (1, 0): without a place it would fit nothing."""
    declared = {2: SENDS | {"seen": bits((2,))}, 1: {"body": dense((1,)), "seen": bits((1,))}}
    card = replace(METHODS["heterofl"], sends=lambda model, hyper: declared[model.classes])
    models = HeldModels(card, None, mlp(1, 2), lambda capacity: mlp(1, 1))
    round = Round(Turn(1, 9, 0), models, {"a": 1.0, "evil": 0.5})
    seen = Bits(np.array([True]))
    upload = Bundle(1, tensors={"body": Floats(np.array([-500], np.float32)), "seen": seen})
    assert round.placed("a", upload) is upload
    placed = round.placed("evil", upload)
    assert (
        placed.part("body").at == Placement(rows=np.array([0])) and placed.tensors["seen"] is seen
    )
    undoing = round_of(HONEST | {"evil": placed})
    assert plain(undoing.undo((), begin)) == plain((START, ["evil"]))


def test_two_people_cannot_tell() -> None:
    undoing = round_of({"a": sent(1, 0), "evil": sent(-500, 0)})
    assert not undoing.broken({"a"}, ("a", "evil"))
    assert undoing.undo((), begin) is None


def test_a_few_made_it_or_nobody_did() -> None:
    parts = {"a": 0.02, "b": 0.03, "c": -0.1, "d": 0.01, "x": 0.5, "y": 0.4}
    assert made_by(parts, 2) == ["x", "y"]
    assert made_by(parts, 1) == []
    assert made_by({"a": 0.3, "b": 0.3, "c": 0.4}, 2) == []
    assert made_by({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.25, "e": 0.1}, 2) == []  # not half of it
    assert made_by({}, 2) == []
