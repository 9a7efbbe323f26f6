"""Who is like whom, of class means that are known."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import statistics
from fedsub_core.methods.fedsub_ridge import FedSubRidgeHyperparameters as Hyper
from fedsub_core.wire.bundles import Bundle, Floats, Part, Whole
from strategies.methods.fedsub_ridge.groups import class_distances, mean_distances, members
from strategies.methods.fedsub_ridge.people import Facts, noted, sums_noted
from strategies.rounds.server_half import State

#: Of two features, the mean of each class, in levels; None: the person lacks it.
MEANS = {
    "ann": ((0, 0), (64, 0)),
    "ben": ((0, 32), (64, 0)),
    "cat": ((0, 96), (-64, 0)),
    "dan": (None, (-64, 32)),
    "eva": ((0, 0), None),
}


def state_of(means: Mapping[str, tuple[tuple[int, int] | None, ...]]) -> State:
    state: State = {}
    for client, classes in means.items():
        held = [(y, at) for y, at in enumerate(classes) if at is not None]
        x = np.array([at for _, at in held for _ in range(4)], np.float32) / 128
        y = np.array([y for y, _ in held for _ in range(4)])
        sums = Rounded.of(statistics(x, y, len(classes)))
        shifts = Floats(sums.shifts.astype(np.float32))
        tensors: dict[str, Part] = {"gram": Whole(sums.gram), "cross": Whole(sums.cross)}
        tensors["shifts"] = shifts
        state |= sums_noted(client, Bundle(len(y), tensors=tensors))
        state |= noted(client, Facts(len(y), len(y), 1))
    return state


STATE, CLIENTS = state_of(MEANS), list(MEANS)
WITHIN = Hyper(groups="clusters", cluster_count=2)


def test_distances_are_between_class_means() -> None:
    first, second = class_distances(STATE, CLIENTS)
    assert first[0].tolist() == pytest.approx([0, 0.25, 0.75, np.nan, 0], nan_ok=True)
    assert second[3].tolist() == pytest.approx(
        [17**0.5 / 4, 17**0.5 / 4, 0.25, 0, np.nan], nan_ok=True
    )


def test_the_mean_is_over_classes_that_both_have_and_else_the_farthest() -> None:
    mean = mean_distances(class_distances(STATE, CLIENTS))
    assert mean[0, 1] == pytest.approx((0.25 + 0) / 2)
    assert mean[0, 4] == 0
    assert mean[3, 4] == mean.max() == pytest.approx(17**0.5 / 4)
    np.testing.assert_array_equal(mean, mean.T)


def test_clusters_join_who_is_alike() -> None:
    found = members(STATE, WITHIN)
    assert found["ann"] == found["ben"] == found["eva"] == [("ann", "ben", "eva")]
    assert found["cat"] == found["dan"] == [("cat", "dan")]


def test_each_class_has_clusters_of_those_who_have_it() -> None:
    found = members(STATE, Hyper(groups="class", cluster_count=2))
    assert found["ann"] == [("ann", "ben", "eva"), ("ann", "ben")]
    assert found["cat"] == [("cat",), ("cat", "dan")]
    assert found["dan"] == [(), ("cat", "dan")], "of a class that it lacks it has everybody's"


@pytest.mark.parametrize(("near", "whose"), [(1, "ann"), (2, "ann eva"), (3, "ann ben eva")])
def test_the_nearest_are_oneself_and_others(near: int, whose: str) -> None:
    found = members(STATE, Hyper(groups="nearest", near=near))
    assert found["ann"] == [tuple(whose.split())]
    assert found["eva"][0][0] == ("eva" if near == 1 else "ann")


@pytest.mark.parametrize("groups", ["none", "clusters", "class", "nearest"])
def test_of_nobody_there_are_no_groups(groups: str) -> None:
    assert members({"pooled": torch.zeros(1)}, Hyper(groups=groups)) == {}
