"""Files of others: what they declare is checked before it is made."""

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core.data import npz
from fedsub_core.data.npz import read_npz, write_npz


def test_wanted_arrays_come_and_all_names(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.arange(6.0).reshape(2, 3), other=np.ones(1))
    arrays, names = read_npz(path, ("x", "y"))
    assert names == ["x", "other"] and list(arrays) == ["x"]
    assert arrays["x"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_zeros_that_fill_the_memory_are_refused_before_they_do(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros((2**28,), np.uint8))
    assert path.stat().st_size < 300_000
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"declares arrays of 268435\d+ bytes in a file of 2"):
        read_npz(path, ("x",))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_a_header_that_lies_is_refused_before_it_is_believed(tmp_path: Path) -> None:
    """A shape of 2**50 numbers in a file of a few bytes."""
    head = io.BytesIO()
    says = {"descr": "<f4", "fortran_order": False, "shape": (2**25, 2**25)}
    np.lib.format.write_array_header_1_0(head, says)
    path = tmp_path / "lie.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", head.getvalue() + b"1234")
    with pytest.raises(ValueError, match="declares arrays of 4503599627370496 bytes"):
        read_npz(path, ("x",))


def test_small_files_may_hold_what_they_like(tmp_path: Path) -> None:
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, x=np.zeros((npz.FREE_BYTES // 8,), np.uint8))
    assert not read_npz(path, ("x",))[0]["x"].any()


def test_what_shrinks_is_packed_and_what_does_not_is_not(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (900, 3, 32, 32)).astype(np.uint8)
    arrays: dict[str, NDArray[Any]] = {
        "x": noise,
        "y": np.arange(900) % 10,
        "t": np.zeros(900),
        "edges": np.tile(np.arange(2), (2, 40_000)),
        "none": np.zeros((0, 4), np.float32),
        "one": np.array(3),
    }
    for name in ("a.npz", "b.npz"):
        with open(tmp_path / name, "wb") as file:
            write_npz(file, arrays)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    back, _ = read_npz(tmp_path / "a.npz", list(arrays))
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape
        assert (back[name] == array).all()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        packed = {i.filename: i.compress_size < i.file_size / 5 for i in archive.infolist()}
    assert packed.pop("x.npy") is False
    assert packed["y.npy"] and packed["t.npy"] and packed["edges.npy"]
