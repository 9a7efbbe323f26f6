"""WESAD's official files: ``S2/S2.pkl`` ... ``S17/S17.pkl``, unpacked or inside ``WESAD.zip``.

Each is a Python 2 pickle of nearly a gigabyte. It is read straight from the zip and with
:class:`fedsub_core.data.unpickling.ArraysOnly`, so nothing in it can run; only the signals that are
needed are kept, as float32.
"""

import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedsub_core.data.unpickling import ArraysOnly
from fedsub_core.errors import DataError, cut
from fedsub_data.preparing.preparation import refused
from fedsub_data.preparing.unpacking import opened_zip
from fedsub_data.preparing.wesad.recording import Recording, Signal
from fedsub_data.preparing.windows import Array

#: The people whose data are in the official archive; 1 and 12 were lost by a sensor's fault.
PEOPLE = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17)
LABEL_HZ = 700.0
#: Samples a second and axes of the official signals.
SHAPES: Mapping[str, Mapping[str, tuple[float, int]]] = {
    "chest": {"ECG": (700.0, 1), "EDA": (700.0, 1)},
    "wrist": {"BVP": (64.0, 1), "EDA": (4.0, 1), "TEMP": (4.0, 1), "ACC": (32.0, 3)},
}

_MEMBER = re.compile(r"(?:[^/]+/)*S(\d+)/S\1\.pkl")
_BUFFER = 1 << 20
# Four times what an official pickle has: a zip of a few bytes may say that it holds anything.
_MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Person:
    """Where one person's pickle lies: a file, or a member of a zip."""

    number: int
    path: Path
    member: str | None = None

    @property
    def where(self) -> str:
        """The file, for messages."""
        return f"{self.path}" if self.member is None else f"{self.path}: {self.member}"


def find_people(source: Path) -> list[Person]:
    """Return the people in `source`, by number: the zip, or a folder that it was unpacked into.

    Raises DataError where `source` is neither, holds nobody, or holds somebody twice.
    """
    if source.is_dir():
        paths = sorted(p for depth in ("", "*/") for p in source.glob(f"{depth}S*/S*.pkl"))
        people = _matching(source, ((p.relative_to(source).as_posix(), p, None) for p in paths))
    elif source.is_file():
        try:
            with _zip(source) as archive:
                names = archive.namelist()
        except DataError:
            raise
        except Exception as error:  # a damaged zip raises nearly anything
            raise refused(source, cut(error), "WESAD.zip, or its unpacked folder") from error
        people = _matching(source, ((name, source, name) for name in names))
    else:
        raise refused(source, "nothing there", "WESAD.zip, or its unpacked folder")
    if not people:
        raise refused(source, "no S2/S2.pkl ... S17/S17.pkl", "WESAD.zip, or its unpacked folder")
    return people


def read_recording(person: Person, device: str) -> Recording:
    """Return the signals of `device` ("chest" or "wrist") and the labels of one person.

    Raises DataError where the file is damaged, names anything but numpy arrays, lacks a signal, or
    has one of another shape, of another length than the labels, or with a value that is not finite.
    """
    where = person.where
    content = _content(person)
    subject = content.get("subject")
    if subject != f"S{person.number}":
        # Lists may hold themselves: what is no text is not printed.
        got = repr(cut(subject)) if isinstance(subject, str) else f"of {type(subject).__name__}"
        raise refused(where, f"subject {got}", f"'S{person.number}'")
    label = _array(content, ("label",), 1, where)
    if label.dtype.kind not in "iu":
        raise refused(where, f"label of type {label.dtype}", "integers")
    length_s = len(label) / LABEL_HZ
    signals = {}
    for name, (rate_hz, axes) in SHAPES[device].items():
        values = _array(content, ("signal", device, name), axes, where)
        if abs(len(values) - length_s * rate_hz) > 1 - 1e-6:
            got = f"{device} {name} with {len(values)} rows at {rate_hz:g} Hz"
            expected = f"{length_s:.2f} s of it, as long as the {len(label)} labels at 700 Hz"
            raise refused(where, got, expected)
        signals[name] = Signal(values.astype(np.float32), rate_hz)
    return Recording(where, signals, label, LABEL_HZ)


def _matching(source: Path, files: Iterable[tuple[str, Path, str | None]]) -> list[Person]:
    people: dict[int, Person] = {}
    for name, path, member in files:
        match = _MEMBER.fullmatch(name)
        if match is None:
            continue
        person = Person(int(match[1]), path, member)
        if person.number in people:
            got = f"{people[person.number].where} and {person.where}"
            raise refused(source, got, "each person once")
        people[person.number] = person
    return [people[number] for number in sorted(people)]


def _content(person: Person) -> dict[str, Any]:
    try:
        if person.member is None:
            with open(person.path, "rb") as file:
                content = _unpickled(file, person.path.stat().st_size)
        else:
            # Buffered: a protocol 0 pickle has lines of 100 MB, which a zip's own reader crawls
            # through.
            with (
                _zip(person.path) as archive,
                archive.open(person.member) as member,
                io.BufferedReader(member, _BUFFER) as file,  # type: ignore[type-var]
            ):
                content = _unpickled(file, archive.getinfo(person.member).file_size)
    except DataError:
        raise
    except Exception as error:  # a damaged zip or pickle raises nearly anything
        got = f"{type(error).__name__}: {cut(error)}"
        expected = "WESAD's pickle of numpy arrays; fetch the file again"
        raise refused(person.where, got, expected) from error
    if not isinstance(content, dict):
        raise refused(person.where, type(content).__name__, "a dict with 'signal' and 'label'")
    return content


def _zip(path: Path) -> AbstractContextManager[zipfile.ZipFile]:
    return opened_zip(path, path, path.stat().st_size)


def _unpickled(file: BinaryIO, size: int) -> Any:
    if size > _MOST_BYTES:
        raise ValueError(f"{size} bytes, expected at most {_MOST_BYTES}")
    return ArraysOnly(file, encoding="latin1").load()


def _array(content: dict[str, Any], keys: tuple[str, ...], axes: int, where: str) -> Array:
    """Return the numbers under `keys`: [n, axes], or [n] where there is one axis."""
    value: Any = content
    name = " ".join(keys)
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise refused(where, f"no {name}", "the official dict with signal, subject and label")
        value = value[key]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        raise refused(where, f"{name} of type {type(value).__name__}", "an array of numbers")
    array: Array = value
    if axes == 1 and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if (
        array.ndim != (2 if axes > 1 else 1)
        or array.shape[1:] not in ((), (axes,))
        or not array.size
    ):
        raise refused(where, f"{name} of shape {value.shape}", f"[n, {axes}] with n above 0")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        got = f"{name} of {array[tuple(wrong[0])]} at row {wrong[0][0]}"
        raise refused(where, got, "finite numbers")
    return array
