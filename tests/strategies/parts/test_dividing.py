"""Dividing clients into groups, by distances alone."""

import numpy as np
import pytest
import torch

from strategies.parts.distances import cosine_distances
from strategies.parts.dividing import divided_below, divided_into

#: Two that point one way, and one that points another.
UPDATES = cosine_distances(torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])).numpy()


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
def test_updates_that_point_the_same_way_are_one_group(linkage: str) -> None:
    assert divided_into(UPDATES, linkage, "fixed:2").tolist() == [0, 0, 1]
    assert divided_into(UPDATES, linkage, "silhouette").tolist() == [0, 0, 1]
    assert divided_below(UPDATES, linkage, 0.5).tolist() == [0, 0, 1]


def test_thresholds_that_merge_and_isolate_all() -> None:
    assert divided_below(UPDATES, "average", 2.0).tolist() == [0, 0, 0]
    assert divided_below(UPDATES, "average", -1.0).tolist() == [0, 1, 2]


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_there_are_as_many_groups_as_asked_for_and_no_more_than_clients(k: int) -> None:
    assert divided_into(UPDATES, "complete", f"fixed:{k}").max() + 1 == min(k, 3)


def test_one_and_two_clients() -> None:
    one, alike, apart = np.zeros((1, 1)), np.zeros((2, 2)), np.array([[0.0, 0.3], [0.3, 0.0]])
    for distances, rule, expected in (
        (one, "fixed:3", [0]),
        (one, "silhouette", [0]),
        (alike, "silhouette", [0, 0]),
        (apart, "silhouette", [0, 1]),
        (apart, "fixed:1", [0, 0]),
    ):
        assert divided_into(distances, "average", rule).tolist() == expected
    assert divided_below(one, "average", 0.1).tolist() == [0]


def test_silhouette_finds_three_types_and_permuting_clients_permutes_groups() -> None:
    stream = np.random.default_rng(0)
    types = np.repeat(np.eye(3), 5, axis=0)[:, :, None] + 0.1 * stream.normal(size=(15, 3, 4))
    points = torch.from_numpy(types.reshape(15, 12))
    labels = divided_into(cosine_distances(points).numpy(), "complete", "silhouette")
    assert labels.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    order = stream.permutation(15)
    moved = divided_into(cosine_distances(points[order]).numpy(), "complete", "silhouette")
    same = labels[order][:, None] == labels[order]
    assert ((moved[:, None] == moved) == same).all()
