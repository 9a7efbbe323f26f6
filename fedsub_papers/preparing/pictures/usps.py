"""USPS: 9,298 handwritten digits of envelopes, grey, 16 x 16 (Hull 1994), as LIBSVM has them.

A line a digit: the class from 1 to 10, which is the digit and 1, and ``1:v`` to ``256:v`` with
values from -1 (paper) to 1 (ink).
"""

from pathlib import Path

import numpy as np

from fedsub_data.preparing.members import Member, find_members
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused, text_lines
from fedsub_data.preparing.unpacking import unpacked_member
from fedsub_papers.preparing.pictures.parts import Part, federation_of

CLASSES = tuple("0123456789")
_PARTS = {"train": "usps", "test": "usps.t"}
_SIDE = 16
_LABELS = {str(i + 1): i for i in range(len(CLASSES))}
_PLACES = [str(i + 1) for i in range(_SIDE * _SIDE)]


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return USPS, uint8 [n, 1, 16, 16], as the clients ``train`` and ``test``.

    Raises DataError where a file is missing, damaged or truncated, or at a line that is not as
    above.
    """
    parts = []
    progress(0, len(_PARTS))
    for part, name in _PARTS.items():
        expected = f"a folder with {' and '.join(f'{one}.bz2' for one in _PARTS.values())}"
        member = find_members(source, rf"(?:.*/)?{name}(?:\.bz2)?", expected)[0]
        parts.append(_read(part, member))
        progress(len(parts), len(_PARTS))
    return federation_of("usps", "digit recognition", CLASSES, parts, Counts())


def _read(part: str, member: Member) -> Part:
    pictures, labels, where = [], [], str(member)
    with member.open() as raw, unpacked_member(raw, member.size(), where) as file:
        for number, line in text_lines(file, where):
            label, *fields = line.split()
            if label not in _LABELS:
                raise refused(where, f"class {label[:20]!r}", "1 to 10", number)
            pairs = [field.split(":") for field in fields]
            if [pair[0] for pair in pairs] != _PLACES:
                raise refused(where, f"{len(fields)} values", "1:v to 256:v", number)
            try:
                values = np.array([float(pair[1]) for pair in pairs])
            except (ValueError, IndexError):
                raise refused(where, "a value that is no number", "1:v to 256:v", number) from None
            if not (np.abs(values) <= 1).all():
                raise refused(where, "a value beyond 1", "values from -1 to 1", number)
            pictures.append(np.rint((values + 1) * 127.5).astype(np.uint8))
            labels.append(_LABELS[label])
    if not pictures:
        raise refused(where, "no line", "a digit on each")
    x = np.stack(pictures).reshape(-1, 1, _SIDE, _SIDE)
    return Part(part, where, x, np.array(labels, np.int64))
