"""A federation that is there already, and how new samples fit behind its own."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import read_card
from fedsub_core.data.client_data import ARRAYS, ClientData
from fedsub_core.data.client_file import check_client, read_client
from fedsub_core.data.federation import client_files
from fedsub_core.data.npz import read_npz
from fedsub_core.data.target import no_label
from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.devices import A_DATE
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.samples import UNLABELLED, Person
from fedsub_data.importing.source import Rows, Source
from fedsub_data.importing.time_options import seconds
from fedsub_data.importing.zones import DAY, offsets
from fedsub_data.preparing.preparation import REPORT_FILE

#: Windows that only touch must not count as overlapping because of a rounding error.
_TOUCHING = 1e-6
#: Without dates, more than this share of samples that are there shows a file that was added before.
_MOST = 0.5


@dataclass(frozen=True, eq=False)
class _Last:
    """What is last of a person: the time of its samples, s, and the number of its group."""

    last: float
    group: int | None


class Before:
    """The federation in a folder, to which recordings are added.

    Raises DataError where it is none, or its card or its record cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.card = folder, read_card(folder)
        self.people = tuple(path.stem for path in client_files(folder))
        if not self.people:
            raise DataError(f"{folder}: got nobody, expected a federation with people")

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record that the import left, as JSON has it; {} where there is none."""
        path = self.folder / REPORT_FILE
        if not path.is_file():
            return {}
        try:
            record = json.loads(path.read_text("utf-8"))
            if not isinstance(record, dict) or not isinstance(record.get("options", {}), dict):
                raise ValueError(f"{record!r}")
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path}: got {cut(error)}, expected the record that an import writes. Restore it, "
                "or remove it and give the options of that import again"
            ) from error
        return record

    @property
    def options(self) -> ImportOptions:
        """The options of the import that made the folder, where its record has them."""
        kept = self.record.get("options", {}) if self.record.get("made by") == "import" else {}
        known = {f.name: f.type for f in fields(ImportOptions)}
        named = {key.replace("-", "_"): value for key, value in kept.items()}
        try:
            return ImportOptions(**{key: one for key, one in named.items() if key in known})
        except Exception as error:  # values of any kind may stand there
            raise DataError(
                f"{self.folder / REPORT_FILE}: options: got {cut(error)}, expected those of an "
                "import. Restore the file, or remove it and give the options again"
            ) from error

    @cached_property
    def windows(self) -> bool:
        """Whether samples are windows of a signal."""
        return read_client(self._file(self.people[0]), self.card).x.ndim == 3

    def rows(self, source: Source) -> Iterator[Rows]:
        """Yield everybody's samples as rows of the source's classes, one person at a time."""
        of = {name: code for code, name in enumerate(source.labels)}
        codes = [of.get(name, -1) for name in self.card.classes]
        for client in self.people:
            data = read_client(self._file(client), self.card)
            n = len(data.y)
            zeros = np.zeros(n, np.int64)
            y = zeros if self.card.target is not None else np.array(codes)[data.y]
            x = np.asarray(data.x, np.float32)
            yield Rows(self.name_of(client), zeros, np.arange(n), y, None, x)

    def name_of(self, client: str) -> str:
        """Return the name of a person of the folder beside those who are added."""
        return f"{client} in {self.folder}"

    def behind(self, person: Person) -> Person:
        """Return a person's new samples, placed behind those that are there.

        Times that begin at 0 in each recording do not say when it was made: the new ones are put
        behind the others. Numbers of groups go on.

        Raises DataError where new samples are older than some that are there, or have another kind
        of time.
        """
        parts = [data for data in (person.labelled, person.unlabelled) if data is not None]
        if (last := self._last(person.client)) is None:
            return person
        timed = [data.t for data in parts if data.t is not None]
        if len(timed) < len(parts):
            raise self._refused(person.client, "samples without times", "times, as it has")
        t = np.concatenate(timed)
        later, length = self._later(person.client, float(t.min()), last), self.card.window_s or 0.0
        begins = None
        if last.group is not None:
            begins = last.group + (0 if self._goes_on(float(t.min()) + later, last, length) else 1)

        def placed(data: ClientData | None) -> ClientData | None:
            if data is None or data.t is None:
                return data
            group = None if begins is None or data.group is None else data.group + begins
            return replace(data, t=data.t + later, group=group)

        return Person(person.client, placed(person.labelled), placed(person.unlabelled))

    def _later(self, client: str, begins: float, last: _Last) -> float:
        """Return by how much new samples are moved, s, which begin at `begins`."""
        length = self.card.window_s or 0.0
        end = last.last + length * (1 - _TOUCHING)
        dates = last.last > A_DATE, begins > A_DATE
        if dates[0] is not dates[1]:
            kinds = ["times that count from a start" if not date else "dates" for date in dates]
            raise self._refused(client, kinds[1], f"{kinds[0]}, as it has")
        if begins >= end and begins > last.last:
            return 0.0
        if not dates[0] and abs(begins) <= max(length, 1.0):
            return last.last + 2 * max(length, 1.0) - begins
        raise self._refused(
            client,
            f"rows from {_moment(begins)} on",
            f"newer ones than it has, which end at {_moment(last.last + length)}: rows that are "
            "there already, or older, are not added. Leave them out of the file",
        )

    def _goes_on(self, begins: float, last: _Last, length: float) -> bool:
        """Return whether new samples that begin at `begins`, s, are of the last group."""
        options = self.options
        if self.card.groups == "session":
            gap = seconds("session-gap", options.session_gap)
            return gap is not None and begins - (last.last + length) <= gap
        if self.card.groups != "day":
            return False
        t = np.array([last.last, begins])
        local = t + offsets(t, options.zone) if options.zone else t
        return bool(np.diff(np.floor(local / DAY))[0] == 0)

    def joined(self, data: ClientData, unlabelled: bool = False) -> dict[str, NDArray[Any]]:
        """Return the arrays of a person's file with new samples behind those that are there.

        Raises DataError where samples are there already, or differ in shape or in what is known of
        them.
        """
        path = self._file(data.client, unlabelled)
        if not path.is_file():
            return data.arrays()
        old = self._read(path)
        before, new = old.arrays(), data.arrays()
        if set(before) != set(new):
            got, expected = (f"arrays {', '.join(arrays)}" for arrays in (new, before))
            raise self._refused(data.client, got, f"{expected}, as it has")
        if old.x.shape[1:] != data.x.shape[1:]:
            got, expected = (f"samples of shape {one.x.shape[1:]}" for one in (data, old))
            raise self._refused(data.client, got, f"{expected}, as it has")
        seen, dated = {*map(_digest, old.x)}, data.t is not None and data.t[0] > A_DATE
        there = 0 if dated else sum(_digest(sample) in seen for sample in data.x)
        if there > _MOST * len(data.x):  # a sensor at rest repeats itself, too
            got = f"{there:,} of {len(data.x):,} samples that are there already"
            raise self._refused(data.client, got, "new ones. Leave them out of the file")
        return {name: np.concatenate([before[name], new[name]]) for name in new}

    def _file(self, client: str, unlabelled: bool = False) -> Path:
        place = self.folder / UNLABELLED if unlabelled else self.folder
        return place / "clients" / f"{client}.npz"

    def _read(self, path: Path) -> ClientData:
        """Return a file's samples; those without labels have 0."""
        if path.parent.parent == self.folder:
            return read_client(path, self.card)
        try:
            arrays = read_npz(path, ARRAYS)[0]
            nothing: Mapping[str, Any] = {
                "y": np.full(len(arrays["x"]), no_label(self.card.target))
            }
        except Exception as error:  # a damaged zip makes numpy raise nearly anything
            raise DataError(f"{path}: cannot be read ({cut(error)}). Restore it") from error
        return check_client(path, path.stem, {**arrays, **nothing}, self.card)

    def _last(self, client: str) -> _Last | None:
        """Return the last window of a person; None without samples or times.

        Raises DataError where its samples come during a run, or are nodes of a graph.
        """
        files = [path for apart in (False, True) if (path := self._file(client, apart)).is_file()]
        own = [self._read(path) for path in files]
        if any(data.since is not None or data.edges is not None for data in own):
            got = "a file with since or edges, of a scenario or a graph"
            raise self._refused(client, got, "one to which recordings can be added")
        times = [data.t for data in own if data.t is not None]
        if not times:
            return None
        groups = [int(data.group.max()) for data in own if data.group is not None]
        last = max(float(t.max()) for t in times)
        return _Last(last, max(groups, default=None))

    def _refused(self, client: str, got: str, expected: str) -> DataError:
        return DataError(
            f"{spelt('into', str(self.folder))}: person {client!r}: got {got}, expected {expected}"
        )


def _digest(sample: NDArray[Any]) -> bytes:
    return blake2b(np.asarray(sample, np.float32).tobytes(), digest_size=16).digest()


def _moment(t: float) -> str:
    """Return a time as a date in UTC, or as seconds."""
    if t <= A_DATE:
        return f"{t:g} s"
    return datetime.fromtimestamp(t, UTC).isoformat(" ", "seconds")[:19] + " UTC"
