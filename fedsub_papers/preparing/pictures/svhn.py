"""SVHN: 99,289 digits of house numbers, 3 x 32 x 32 (Netzer et al. 2011), MATLAB's files."""

from pathlib import Path
from typing import Any

import numpy as np

from fedsub_core.errors import DataError, cut
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_papers.preparing.pictures.parts import Part, federation_of

CLASSES = tuple("0123456789")
_PARTS = ("train", "test")
_PICTURE = (32, 32, 3)
# Twice as many as the largest official file, extra_32x32.mat, has.
_MOST = 1_100_000


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return SVHN's cropped digits, uint8 [n, 3, 32, 32], as the clients ``train`` and ``test``.

    Parameters
    ----------
    source : the folder with ``train_32x32.mat`` and ``test_32x32.mat``.

    Raises DataError where a file is missing, damaged, or has another shape, type or label.
    """
    parts = []
    progress(0, len(_PARTS))
    for part in _PARTS:
        path = source / f"{part}_32x32.mat"
        if not path.is_file():
            expected = "a folder with train_32x32.mat and test_32x32.mat"
            raise refused(source, f"no {path.name} in it", expected)
        parts.append(_read(part, path))
        progress(len(parts), len(_PARTS))
    return federation_of("svhn", "digit recognition", CLASSES, parts, Counts())


def _read(part: str, path: Path) -> Part:
    from scipy.io import loadmat, whosmat

    try:
        # What the file declares, before anything of that size is made.
        _check_declared({name: (shape, kind) for name, shape, kind in whosmat(path)}, path)
        content = loadmat(path, variable_names=["X", "y"])
    except DataError:
        raise
    except Exception as error:  # a damaged file makes SciPy raise nearly anything
        got = f"{type(error).__name__}: {cut(error)}"
        raise refused(path, got, "a whole MATLAB file of version 5; fetch it again") from error
    x, y = content["X"], content["y"].ravel()
    # Places come first and pictures last in the file. The digit 0 is class 10.
    pictures = np.ascontiguousarray(x.transpose(3, 2, 0, 1))
    labels = y.astype(np.int64)
    wrong = np.flatnonzero((labels < 1) | (labels > 10))
    if len(wrong):
        raise refused(path, f"class {labels[wrong[0]]} of picture {wrong[0]}", "1 to 10")
    return Part(part, str(path), pictures, labels % 10)


def _check_declared(found: dict[str, tuple[Any, str]], path: Path) -> None:
    for name, axes in (("X", 4), ("y", 2)):
        if name not in found:
            raise refused(path, f"no {name} in it", "X, the pictures, and y, their classes")
        shape, kind = found[name]
        if kind != "uint8" or len(shape) != axes or max(shape) > _MOST:
            raise refused(path, f"{name} {kind} {shape}", "uint8 X [32, 32, 3, n] and y [n, 1]")
    shape, n = found["X"][0], found["y"][0][0]
    if tuple(shape) != (*_PICTURE, n) or found["y"][0][1] != 1 or n == 0:
        got = f"X {tuple(shape)} and y {tuple(found['y'][0])}"
        raise refused(path, got, "X [32, 32, 3, n] and y [n, 1]")
