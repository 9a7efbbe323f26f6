"""The Python archives of CIFAR-10 and CIFAR-100, read without unpickling code.

Each member is a pickle of a dict: ``data`` uint8 [n, 3072], a picture's red, green and blue rows of
32 x 32, and a list of labels. :class:`fedsub_core.data.unpickling.ArraysOnly` builds nothing but
plain arrays, lists and text, so nothing in an archive can run. Members are read where they lie.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.unpickling import ArraysOnly
from fedsub_core.errors import cut
from fedsub_data.preparing.members import each_file
from fedsub_data.preparing.preparation import refused
from fedsub_papers.preparing.pictures.parts import Pictures

Content = dict[str, Any]

_PICTURE = (3, 32, 32)
_TAR = (".tar.gz", ".tgz", ".tar")
# Twice the largest official member, CIFAR-100's train.
_MOST_BYTES = 320_000_000


def read_batches(
    source: Path, folder: str, names: Sequence[str]
) -> Iterator[tuple[str, str, Content]]:
    """Yield each official file's name, where it is, and the dict in it, in the archive's order.

    Parameters
    ----------
    source : the archive as fetched, a folder that holds it, or its unpacked folder `folder`.
    names : the official files; others are passed over.

    Raises DataError where a file is missing, there twice, damaged, or holds anything but plain
    values.
    """
    left = set(names)
    path = _located(source, folder, min(left))
    for name, where, file, size in each_file(path, names):
        if name not in left:
            raise refused(where, f"a second {name}", "one of that name")
        left.remove(name)
        yield name, where, _content(file, size, where)
    if left:
        missing = ", ".join(name for name in names if name in left)
        raise refused(source, f"no {missing} in it", f"all of {folder}; is it whole?")


def pictures_in(content: Content, where: str) -> Pictures:
    """Return a batch's pictures, uint8 [n, 3, 32, 32].

    Raises DataError where `data` is missing or of another type or shape.
    """
    data = content.get("data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2:
        got = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else f"{type(data)}"
        raise refused(where, f"data {got}", "uint8 [n, 3072]")
    if data.shape[1] != np.prod(_PICTURE) or not len(data):
        raise refused(where, f"data of shape {data.shape}", "[n, 3072]: 3 x 32 x 32 a picture")
    return data.reshape(-1, *_PICTURE)


def labels_in(content: Content, key: str, where: str) -> NDArray[np.int64]:
    """Return a batch's labels under `key`, int64 [n].

    Raises DataError where they are missing or no list of whole numbers.
    """
    labels = content.get(key)
    if not isinstance(labels, list) or not all(type(one) is int for one in labels):
        raise refused(where, f"{key} of {type(labels).__name__}", "a list of whole numbers")
    try:
        return np.array(labels, np.int64)
    except OverflowError:
        raise refused(where, f"{key} beyond 64 bits", "labels of the data set") from None


def names_in(content: Content, key: str, count: int, where: str) -> tuple[str, ...]:
    """Return the names of the classes under `key`.

    Raises DataError where they are not `count` different texts.
    """
    names = content.get(key)
    texts = isinstance(names, list) and all(isinstance(one, str) and one for one in names)
    if names is not None and texts and len(names) == len(set(names)) == count:
        return tuple(names)
    raise refused(where, f"{key} of {type(names).__name__}", f"a list of {count} different names")


def _located(source: Path, folder: str, name: str) -> Path:
    expected = f"the archive of {folder}, or that folder"
    if source.is_dir():
        archives = [p for p in sorted(source.iterdir()) if p.name.endswith(_TAR)]
        # cifar-10-python.tar.gz holds cifar-10-batches-py, not cifar-100-python.
        archives = [p for p in archives if folder.startswith(f"{p.name.split('-python')[0]}-")]
        for path in (source, source / folder):
            if (path / name).is_file():
                return path
        if archives:
            return archives[0]
        raise refused(source, "a folder without it", expected)
    if not source.is_file():
        raise refused(source, "no such file or folder", expected)
    return source


def _content(file: IO[bytes], size: int, where: str) -> Content:
    try:
        if size > _MOST_BYTES:
            raise ValueError(f"{size} bytes, expected at most {_MOST_BYTES}")
        content = ArraysOnly(file, encoding="latin1").load()
    except Exception as error:  # a damaged archive or pickle raises nearly anything
        got = f"{type(error).__name__}: {cut(error)}"
        raise refused(where, got, "a pickle of plain arrays; fetch the archive again") from error
    if not isinstance(content, dict):
        raise refused(where, type(content).__name__, "a dict with data and labels")
    return content
