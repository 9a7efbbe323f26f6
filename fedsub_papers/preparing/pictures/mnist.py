"""MNIST: 70,000 handwritten digits, grey, 28 x 28 (LeCun, Cortes and Burges).

It comes in IDX files: a header and bytes, mostly packed by gzip. The header is two zero bytes, 8
for "unsigned byte", the number of axes, and each axis' length as four bytes, the highest first.
"""

import math
from pathlib import Path

import numpy as np

from fedsub_data.preparing.members import Member, find_members
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_data.preparing.unpacking import unpacked_member
from fedsub_papers.preparing.pictures.parts import Part, Pictures, federation_of

CLASSES = tuple("0123456789")
#: How the files of each part begin.
_PARTS = {"train": "train", "test": "t10k"}
# Twenty times the official ones: a file of a few bytes may say that it holds anything.
_MOST_BYTES = 2**30


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return MNIST, uint8 [n, 1, 28, 28], as the clients ``train`` and ``test``.

    Parameters
    ----------
    source : a folder or a zip that holds the official four files, packed by gzip or not.

    Raises DataError where a file is missing, damaged, truncated, no IDX, or holds a wrong label.
    """
    parts = []
    files = 2 * len(_PARTS)
    progress(0, files)
    for part, begin in _PARTS.items():
        pictures = _found(source, begin, "images", 3)
        labels = _found(source, begin, "labels", 1)
        x, y = read_idx(pictures, 3), read_idx(labels, 1)
        parts.append(Part(part, str(labels), x[:, None], y.astype(np.int64)))
        progress(2 * len(parts), files)
    return federation_of("mnist", "digit recognition", CLASSES, parts, Counts())


def read_idx(member: Member, axes: int) -> Pictures:
    """Return the bytes of an IDX file, uint8 of as many axes.

    Raises DataError where it is no IDX of bytes with that many axes, or is shorter or longer than
    it says.
    """
    with member.open() as raw, unpacked_member(raw, member.size(), str(member)) as file:
        header = file.read(4 + 4 * axes)
        if header[:4] != bytes([0, 0, 8, axes]) or len(header) < 4 + 4 * axes:
            got = f"a file that begins with {header[:4].hex(' ') or 'nothing'}"
            raise refused(str(member), got, f"00 00 08 0{axes}, an IDX of bytes with {axes} axes")
        shape = tuple(int(n) for n in np.frombuffer(header, ">u4", axes, 4))
        size = math.prod(shape)
        if not 0 < size <= _MOST_BYTES:
            raise refused(str(member), f"a shape {shape}", f"1 to {_MOST_BYTES} bytes")
        body = file.read(size + 1)
    if len(body) != size:
        got = "more bytes" if len(body) > size else f"{len(body)} bytes; it is truncated"
        raise refused(str(member), got, f"{size}, as its header {shape} says")
    return np.frombuffer(body, np.uint8).reshape(shape)


def _found(source: Path, begin: str, what: str, axes: int) -> Member:
    # Some copies have a dot for the last hyphen.
    name = rf"{begin}-{what}[.-]idx{axes}-ubyte(\.gz)?"
    expected = f"a folder with {begin}-{what}-idx{axes}-ubyte.gz"
    return find_members(source, rf"(?:.*/)?{name}", expected)[0]
