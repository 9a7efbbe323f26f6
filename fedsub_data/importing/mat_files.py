"""MATLAB's ``.mat`` files, up to version 7, as arrays by name; SciPy reads them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, cut, listed
from fedsub_core.extras import require
from fedsub_data.preparing.unpacking import most_unpacked

#: How a file of version 7.3 begins, which is HDF5.
_HDF5 = b"MATLAB 7.3"
#: Bytes of a number, where the file does not say them.
_NUMBER = 8
_AXES = "xyz"
#: What a cell may be.
_PLAIN = (str, int, float)


def read_mat(path: Path) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the arrays of a file by name, and sentences on what is left out.

    Fields of a structure are arrays. The three columns of a matrix ``acc`` are ``acc_x``,
    ``acc_y``, ``acc_z``; of another number, ``acc_1`` and so on. A matrix ``x`` stays one.

    Raises ConfigError where SciPy is not installed. Raises DataError where it is of version 7.3, is
    too large when unpacked, or cannot be read.
    """
    require("reading .mat files", "scipy")
    from scipy.io import loadmat, whosmat

    with open(path, "rb") as file:
        if file.read(len(_HDF5)) == _HDF5:
            raise DataError(
                f"{path}: got a file of MATLAB 7.3 (HDF5), expected version 7 or earlier. Save it "
                "with save('FILE.mat', '-v7'), or write a CSV with writetable"
            )
    try:
        sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape, _ in whosmat(path)]
        if (bytes_ := sum(sizes) * _NUMBER) > (most := most_unpacked(path.stat().st_size)):
            raise DataError(
                f"{path}: got arrays of {bytes_:,} bytes, expected {most:,} at most. Write a CSV"
            )
        loaded = loadmat(path, simplify_cells=True)
    except DataError:
        raise
    except Exception as error:  # a damaged file makes SciPy raise nearly anything
        raise DataError(
            f"{path}: cannot be read as a .mat file ({type(error).__name__}: {cut(error)}). Save "
            "it again, or write a CSV with writetable"
        ) from error
    read = dict(_arrays({key: own for key, own in loaded.items() if key[:2] != "__"}))
    arrays = {name: array for name, array in read.items() if array is not None}
    lengths = Counter(len(array) for array in arrays.values() if array.ndim)
    rows = max(lengths, key=lambda n: (n > 1, lengths[n], n), default=0)
    others = [
        f"{name} = {cut(array.tolist())}" if array.size == 1 else f"{name} {array.shape}"
        for name, array in arrays.items()
        if array.ndim == 0 or len(array) != rows
    ]
    others += [f"{name} (neither numbers nor words)" for name in read if read[name] is None]
    kept = {name: own for name, own in arrays.items() if own.ndim and len(own) == rows}
    if not kept:
        raise DataError(
            f"{path}: got {listed(others, 5) or 'no variables'}, expected arrays with a row for "
            "each sample, and their classes"
        )
    whole = any(array.ndim == 3 for array in kept.values()) or "x" in {n.lower() for n in kept}
    notes = [f"Left out of {path.name}: {listed(others, 5)}."] if others else []
    return (kept if whole else dict(_columns(kept))), notes


def _arrays(held: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[Any] | None]]:
    """Yield all arrays, those of structures, too; None for what is neither numbers nor words."""
    for name, own in held.items():
        if isinstance(own, Mapping):
            yield from _arrays(own)
            continue
        try:
            array = np.asarray(own)
        except ValueError:  # cells of several lengths
            array = np.empty(0, np.void)
        cells = array.ravel().tolist() if array.dtype.kind == "O" else []
        plain = array.dtype.kind in "fiubUO" and array.ndim <= 3
        yield name, array if plain and all(isinstance(c, _PLAIN) for c in cells) else None


def _columns(arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the columns of matrices by names of their own."""
    for name, array in arrays.items():
        if array.ndim == 1:
            yield name, array
            continue
        count = array.shape[1]
        ends = _AXES if count == len(_AXES) else [str(i + 1) for i in range(count)]
        for end, column in zip(ends, array.T, strict=True):
            yield f"{name}_{end}", column
