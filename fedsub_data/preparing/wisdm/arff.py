"""The transformed file of WISDM v1.1: features of 10 s windows, in ARFF.

Only what that file uses of ARFF is read, so that an error can name its line. The official file
has faults that its about file does not mention: peaks that could not be found are missing (``?``),
XAVG is 0 everywhere, ZSTANDDEV repeats XSTANDDEV, and 61 windows of user 19 are there twice.
"""

import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedsub_data.preparing.preparation import Counts, refused, text_lines
from fedsub_data.preparing.wisdm.raw import CLASSES, LABELS, USERS

WINDOW_S = 10.0

_BINS = [f"{axis}{bin}" for axis in "XYZ" for bin in range(10)]
_STATISTICS = [f"{axis}{s}" for s in ("AVG", "PEAK", "ABSOLDEV", "STANDDEV") for axis in "XYZ"]
FEATURES = (*_BINS, *_STATISTICS, "RESULTANT")
_COLUMNS = ("UNIQUE_ID", "user", *FEATURES, "class")
_ATTRIBUTE = re.compile(r'@attribute\s+"?(\w+)"?\s*(?:numeric|real|\{.*\})\s*', re.IGNORECASE)


def read_windows(
    lines: Iterable[bytes], path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], Counts]:
    """Return user [n] from 1 to 36, label [n], features [n, 43] with NaN where missing, counts.

    Windows that are there twice, but for their UNIQUE_ID, are returned once.

    Parameters
    ----------
    lines : iterable of bytes
    path : the file's name, for messages.

    Raises DataError at the first line that is not UTF-8 or not as the official file has it, and
    where there are no data.
    """
    counts = Counts.zero("rows read", "rows dropped: repeated from earlier in the file")
    numbered = text_lines(lines, path)
    _check_header(numbered, path)
    seen: set[tuple[str, ...]] = set()
    people: list[int] = []
    labels: list[int] = []
    features: list[list[float]] = []
    for number, line in numbered:
        if not line.strip() or line.startswith("%"):
            continue
        counts.add("rows read")
        user, label, values = _row(line, number, path)
        key = (user, label, *values)
        if key in seen:
            counts.add("rows dropped: repeated from earlier in the file")
            continue
        seen.add(key)
        people.append(USERS[user])
        labels.append(LABELS[label])
        features.append(_numbers(values, number, path))
    table = np.array(features, np.float64).reshape(-1, len(FEATURES))
    return np.array(people, np.int64), np.array(labels, np.int64), table, counts


def _check_header(numbered: Iterator[tuple[int, str]], path: str) -> None:
    names: list[str] = []
    for number, line in numbered:
        word = line.strip().lower()
        if word == "@data":
            if tuple(names) == _COLUMNS:
                return
            got = f"{len(names)} attributes, {', '.join(names)}"
            raise refused(path, got, f"the {len(_COLUMNS)} official ones", number)
        if not word or word.startswith(("%", "@relation")):
            continue
        match = _ATTRIBUTE.fullmatch(line.strip())
        if match is None:
            expected = "@relation, @attribute (numeric or nominal), @data or a comment"
            raise refused(path, repr(line[:80]), expected, number)
        names.append(match[1])
    raise refused(path, "no line @data", "a header that ends with it, then the data")


def _row(line: str, number: int, path: str) -> tuple[str, str, list[str]]:
    fields = [field.strip().strip('"') for field in line.split(",")]
    if len(fields) != len(_COLUMNS):
        got = f"{len(fields)} values in {line[:80]!r}"
        raise refused(path, got, str(len(_COLUMNS)), number)
    _, user, *values, label = fields
    if user not in USERS:
        raise refused(path, f"user {user!r}", "a user from 1 to 36", number)
    if label not in LABELS:
        raise refused(path, f"class {label!r}", f"one of {', '.join(CLASSES)}", number)
    return user, label, values


def _numbers(values: list[str], number: int, path: str) -> list[float]:
    numbers = []
    for name, value in zip(FEATURES, values, strict=True):
        try:
            numbers.append(float("nan") if value == "?" else float(value))
        except ValueError:
            raise refused(path, f"{name} {value!r}", "a number or ?", number) from None
        if value != "?" and not np.isfinite(numbers[-1]):
            raise refused(path, f"{name} {value!r}", "a finite number or ?", number)
    return numbers
