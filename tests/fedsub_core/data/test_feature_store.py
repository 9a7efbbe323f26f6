"""Features beyond a bound lie in a file that is mapped."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data import federation
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.feature_store import FeatureStore
from fedsub_core.data.federation import Federation, read_federation, write_federation
from fedsub_core.data.fingerprint import fingerprints
from fedsub_core.errors import DataError

RNG = np.random.default_rng(0)
SHAPES = [(5, 3), (1, 3), (7, 3), (4, 3)]


@pytest.mark.parametrize("memory", [0, 60, 100, 10_000])
def test_arrays_come_back_in_their_order(memory: int) -> None:
    arrays = [RNG.normal(size=shape).astype(np.float32) for shape in SHAPES]
    kept = FeatureStore(memory)
    for array in arrays:
        kept.put(array)
    back = kept.arrays()
    assert [one.shape for one in back] == SHAPES
    assert all(one.dtype == np.float32 for one in back)
    assert all(np.array_equal(one, other) for one, other in zip(back, arrays, strict=True))
    in_memory = [one is other for one, other in zip(back, arrays, strict=True)]
    assert in_memory == [memory == 10_000] * 4
    del kept  # the arrays keep what they need
    assert np.array_equal(back[2], arrays[2])


def test_they_may_be_changed() -> None:
    kept = FeatureStore(0)
    for _ in range(2):
        kept.put(np.ones((2, 2), np.float32))
    first, second = kept.arrays()
    first[:] = 5
    assert (first == 5).all() and (second == 1).all()


def test_nothing() -> None:
    assert FeatureStore(0).arrays() == []


def test_a_folder_that_takes_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with refused(DataError, "gone", "0 MiB", "TMPDIR"):
        FeatureStore(0).put(np.ones((2, 2), np.float32))


def test_a_large_federation_is_the_one_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = np.arange(40) % 2
    people = {
        f"p{i}": ClientData(f"p{i}", RNG.normal(size=(40, 3)).astype(np.float32), y, None, y)
        for i in range(4)
    }
    whole = Federation(Card("f", "a", ("x", "y"), ("1", "2", "3")), people)
    write_federation(tmp_path / "f", whole)
    used: list[FeatureStore] = []

    def small() -> FeatureStore:
        used.append(FeatureStore(1000))
        return used[-1]

    monkeypatch.setattr(federation, "FeatureStore", small)
    back = read_federation(tmp_path / "f")
    assert used[0]._file is not None
    assert fingerprints(back) == fingerprints(whole)
