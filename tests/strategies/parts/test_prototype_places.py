"""Places of prototypes in a plane, and their ratio, with numbers that can be checked by hand."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from fedsub_core.config.settings import RoundSettings
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.prototype_places import plane, prototype_places, ratio

ROUNDS = RoundSettings(rounds=10, evaluate_every=4)
#: Of classes 0 and 2; nobody has class 1.
STATE = {
    "prototypes": torch.tensor([[0.0, 0, 0], [9, 9, 9], [4, 0, 0]]),
    "held": torch.tensor([True, False, True]),
}


def sent(held: list[bool], rows: list[list[float]]) -> Bundle:
    tensors = {"prototypes": Floats.rows(np.array(held), np.array(rows, np.float32))}
    return Bundle(1, tensors=tensors)


#: One away from each class's mean, and from ben's class 2 none.
UPLOADS = {
    "ben": sent([False, False, True], [[4, 0, 0]]),
    "anna": sent([True, False, True], [[0, 1, 0], [4, -1, 0]]),
}


def found(round: int, uploads: Mapping[str, Bundle] = UPLOADS) -> dict[tuple[str, str, int], float]:
    rows = prototype_places(STATE, uploads, Turn(round, 10, 0), ROUNDS)
    assert {row.round for row in rows} <= {round}
    return {(r.metric, r.client, -1 if r.label is None else r.label): r.value for r in rows}


def test_places_keep_the_distances_that_a_plane_can_hold() -> None:
    rows = found(1)
    keys = [(client, label) for metric, client, label in rows if metric == "prototype_x"]
    at = {key: (rows["prototype_x", *key], rows["prototype_y", *key]) for key in keys}
    assert set(at) == {("", 0), ("", 2), ("anna", 0), ("anna", 2), ("ben", 2)}
    assert at["ben", 2] == pytest.approx(at["", 2])
    for one, other, distance in [
        (("", 0), ("", 2), 4.0),
        (("anna", 0), ("", 0), 1.0),
        (("anna", 0), ("anna", 2), math.sqrt(20)),
    ]:
        assert math.dist(at[one], at[other]) == pytest.approx(distance)


def test_the_ratio_is_of_all_dimensions() -> None:
    far = (math.sqrt(17) + math.sqrt(17) + 4) / 3
    assert found(1)["prototype_ratio", "", -1] == pytest.approx((2 / 3) / far)


@pytest.mark.parametrize(("round", "noted"), [(1, True), (3, False), (4, True), (10, True)])
def test_the_first_round_and_those_that_are_tested_have_them(round: int, noted: bool) -> None:
    assert bool(found(round)) == noted


def test_they_do_not_depend_on_who_answered_first() -> None:
    assert found(1, dict(reversed(UPLOADS.items()))) == found(1)


def test_a_round_without_uploads_has_none() -> None:
    assert found(1, {}) == {}


def test_what_diverged_has_no_place() -> None:
    assert found(1, {"anna": sent([True, False, False], [[math.nan, 0, 0]])}) == {}


def test_of_one_class_there_is_no_ratio() -> None:
    state = STATE | {"held": torch.tensor([True, False, False])}
    uploads = {"anna": sent([True, False, False], [[0, 1, 0]])}
    rows = prototype_places(state, uploads, Turn(1, 10, 0), ROUNDS)
    assert {row.metric for row in rows} == {"prototype_x", "prototype_y"}
    assert math.isnan(ratio(np.zeros((1, 3)), np.array([0]), np.zeros((2, 3))))


def test_one_number_has_a_plane_too() -> None:
    places = plane(np.array([[1.0], [3.0]]))
    assert places.tolist() == [[-1, 0], [1, 0]]
