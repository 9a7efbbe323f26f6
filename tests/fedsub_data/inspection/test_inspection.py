import json
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from fedsub_core.data.federation import (
    Card,
    ClientData,
    Federation,
    read_federation,
    write_federation,
)
from fedsub_core.data.sources import load_outlines
from fedsub_data.evolution import Arrival
from fedsub_data.inspection.inspection import (
    REMAINDERS,
    Look,
    inspect_federation,
    token_features,
    window_features,
)

CARD = Card("f", "t", ("sit", "walk"), ("u", "v"))


def client(name: str, x: ArrayLike, y: ArrayLike, since: ArrayLike | None = None) -> ClientData:
    gained = None if since is None else np.array(since, np.int64)
    return ClientData(name, np.array(x, np.float32), np.array(y, np.int64), None, gained)


def test_counts_and_shares() -> None:
    made = Federation(CARD, {"b": client("b", [[1, 2]] * 4, [0, 0, 0, 1]),
                             "a": client("a", [[3, 4]] * 2, [1, 1])})  # fmt: skip
    seen = inspect_federation(made)
    assert seen.clients == ("a", "b") and seen.shape == (2,)
    assert seen.counts.tolist() == [[0, 2], [3, 1]]
    assert seen.shares.tolist() == [[0, 1], [0.75, 0.25]]
    assert seen.hopkins == (None, None)


def test_prototypes_and_similarity_by_hand() -> None:
    # Mean (0, 0) and standard deviation 1 in both features, so prototypes are the samples' means.
    a = client("a", [[1, 1], [1, -1]], [0, 1])
    b = client("b", [[-1, 1]], [0])
    c = client("c", [[-1, -1]], [1])
    seen = inspect_federation(Federation(CARD, {"a": a, "b": b, "c": c}))
    np.testing.assert_allclose(seen.prototypes[0], [[1, 1], [1, -1]], atol=1e-6)
    np.testing.assert_array_equal(np.isnan(seen.prototypes[..., 0]), seen.counts == 0)
    np.testing.assert_allclose(seen.similarity[0], [[1, 0, math.nan], [0, 1, math.nan],
                               [math.nan] * 3], atol=1e-6)  # fmt: skip
    assert seen.mean_similarity == pytest.approx((0, 0), abs=1e-6)


def test_a_class_of_one_person_has_no_mean_similarity() -> None:
    a, b = client("a", [[1, 1], [2, 5]], [0, 1]), client("b", [[3, 1]], [0])
    seen = inspect_federation(Federation(CARD, {"a": a, "b": b}))
    assert seen.mean_similarity[1] is None
    alike = seen.mean_similarity[0]
    assert alike is not None and -1 <= alike <= 1


def test_similarity_is_symmetric_with_ones_and_bounded(
    make_synthetic: Callable[..., Federation],
) -> None:
    seen = inspect_federation(make_synthetic(12, 4), 0)
    for label, matrix in enumerate(seen.similarity):
        held = seen.counts[:, label] > 0
        np.testing.assert_allclose(matrix, matrix.T, equal_nan=True)
        np.testing.assert_allclose(np.diag(matrix)[held], 1)
        assert np.isnan(matrix[~held]).all() and np.isfinite(matrix[np.ix_(held, held)]).all()


def test_units_of_features_do_not_matter(make_synthetic: Callable[..., Federation]) -> None:
    made = make_synthetic(6)
    scale = np.array([1e-3, 1, 9.81, 1e4], np.float32)
    other = {k: ClientData(k, c.x * scale + 3, c.y) for k, c in made.clients.items()}
    one, two = inspect_federation(made, 1), inspect_federation(Federation(made.card, other), 1)
    np.testing.assert_allclose(one.similarity, two.similarity, atol=2e-3, equal_nan=True)
    assert one.hopkins == pytest.approx(two.hopkins, abs=1e-3)


def test_raw_windows_count_as_mean_and_deviation_of_each_channel() -> None:
    x = np.array([[[1, 3], [5, 5]], [[0, 4], [2, 8]]], np.float32)
    assert window_features(x).tolist() == [[2, 5, 1, 0], [2, 5, 2, 3]]
    flat = np.ones((3, 2), np.float32)
    assert window_features(flat) is flat
    made = Federation(CARD, {"a": client("a", x, [0, 1])})
    seen = inspect_federation(made)
    assert seen.shape == (2, 2) and seen.prototypes.shape == (1, 2, 4)


def test_images_count_as_windows_do_and_texts_by_their_ids() -> None:
    x = np.array([[[[1, 3], [5, 7]]], [[[0, 0], [0, 0]]]], np.uint8)
    assert window_features(x).tolist() == [[4, np.sqrt(np.float32(5))], [0, 0]]
    many = np.tile(x, (1100, 1, 1, 1))  # more than are looked at at once
    np.testing.assert_array_equal(window_features(many), np.tile(window_features(x), (1100, 1)))
    ids = np.array([[1, 1, 65, 2, 0, 0], [64, 0, 0, 0, 0, 0]], np.int32)
    shares = token_features(ids, padding=0)
    assert shares.shape == (2, REMAINDERS) and shares.sum(1).tolist() == [1, 1]
    assert (shares[0, 1], shares[0, 2], shares[1, 0]) == (0.75, 0.25, 1)


def test_equal_seeds_and_any_order_of_clients_are_equal(
    make_synthetic: Callable[..., Federation],
) -> None:
    made = make_synthetic(6)
    turned = Federation(made.card, dict(reversed(made.clients.items())))
    assert inspect_federation(made, 3).as_dict() == inspect_federation(turned, 3).as_dict()
    assert inspect_federation(made, 3).hopkins != inspect_federation(made, 4).hopkins


def test_arrivals() -> None:
    a = client("a", [[1, 1]] * 4, [0, 0, 1, 1], since=[0, 1, 7, 7])
    b = client("b", [[2, 3]] * 3, [0, 1, 1], since=[1, 7, 9])
    c = client("c", [[2, 3]] * 2, [0, 1])
    seen = inspect_federation(Federation(CARD, {"a": a, "b": b, "c": c}))
    assert seen.arrivals == (Arrival(1, 5, 3), Arrival(7, 3, 2), Arrival(9, 1, 1))
    assert inspect_federation(Federation(CARD, {"c": c})).arrivals == ()


def test_the_plain_form_is_strict_json(awkward: Federation) -> None:
    seen = inspect_federation(awkward, 2)
    plain = json.loads(json.dumps(seen.as_dict(), allow_nan=False))
    assert plain == seen.as_dict()
    assert plain["samples"] == 200 and sum(plain["samples_per_class"]) == 200
    assert plain["people_per_class"] == (seen.counts > 0).sum(0).tolist()
    assert plain["similarity"][1][1] == [None] * 5  # p001 has class 0 alone
    assert plain["arrivals"][1] == {"round": 10, "samples": 10, "clients": 1}
    assert plain["timing"]["auto_split"] == {"blocked": 5} and plain["card"]["overlap"] == 0.5


def test_outlines_look_as_the_federation_does(awkward: Federation) -> None:
    look = Look()
    for data in reversed(awkward.clients.values()):
        look.see(data, awkward.card)
    outlines = {name: data.outline() for name, data in awkward.clients.items()}
    seen = look.inspection(Federation(awkward.card, outlines), 2)
    assert seen.as_dict() == inspect_federation(awkward, 2).as_dict()


def test_windows_are_in_memory_for_one_client_at_a_time(tmp_path: Path) -> None:
    rng, own = np.random.default_rng(0), 1500
    made = {}
    for name in "abcdefgh":
        x = rng.normal(size=(own, 2, 128)).astype(np.float32)  # 1.5 MB
        made[name] = ClientData(name, x, np.arange(own) % 2)
    write_federation(tmp_path / "f", Federation(CARD, made))
    each = made["a"].x.nbytes
    del made, x
    tracemalloc.start()
    look = Look()
    inspected = look.inspection(load_outlines(str(tmp_path / "f"), look.see))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert inspected.counts.sum() == 8 * own
    assert each < peak < 6 * each


def test_wisdm(real_data: Path) -> None:
    seen = inspect_federation(read_federation(real_data / "wisdm"), 0)
    assert seen.counts.shape == (36, 6) and seen.counts.sum() == 43752
    assert seen.counts.sum(axis=0).tolist() == [16962, 13722, 4860, 3966, 2346, 1896]
    assert seen.mean_similarity[0] == pytest.approx(0.29, abs=0.01)
