"""The record of resampled rows, by person and in words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, cut, listed
from fedsub_data.preparing.preparation import REPORT_FILE

Array = NDArray[np.float64]
#: A rate so near to another, relatively, is the same.
DRIFT = 0.02
#: A recording with so many times the rate or more is averaged first: faster waves would fold over.
_AVERAGED = 1.5
#: A sentence names no more people, and no more sentences are made.
_SHOWN = 20


def rows_of_mean(steps: int, seconds: float, rate: float) -> int:
    """Return the number of rows whose mean is taken before resampling; 1 is no mean."""
    ratio = steps / (seconds * rate)
    return 1 if ratio < _AVERAGED else 2 * (round(ratio) // 2) + 1


def percent(share: float) -> str:
    """Return a share in words, such as 95 %."""
    return f"{100 * share:.0f} %"


@dataclass
class _Stretches:
    """Stretches of one person that were resampled alike: rows, seconds, samples made of them."""

    steps: int = 0
    seconds: float = 0.0
    samples: int = 0


@dataclass
class Resampled:
    """Resampled rows, by person, and by whether they became more, fewer, or as many.

    Parameters
    ----------
    rate : samples a second that were made.
    samples : of each person, resampled or not.
    """

    rate: float = 0.0
    samples: dict[str, int] = field(default_factory=dict)
    _made: dict[tuple[str, int], _Stretches] = field(default_factory=dict)

    def add(self, person: str, rows: Array, t: Array, rate: float) -> None:
        """Count a stretch: the times of its rows, s, and of the samples made of them."""
        self.rate = rate
        self.samples[person] = self.samples.get(person, 0) + len(t)
        if t is rows:
            return
        steps, seconds = len(rows) - 1, float(rows[-1] - rows[0])
        ratio = steps / (seconds * rate)
        which = 0 if abs(ratio - 1) <= DRIFT else int(np.sign(ratio - 1))
        made = self._made.setdefault((person, which), _Stretches())
        made.steps += steps
        made.seconds += seconds
        made.samples += len(t)

    def by_person(self) -> dict[str, list[str]]:
        """Return clauses on how each person's rows were resampled."""
        clauses: dict[str, list[str]] = {}
        for (person, which), made in self._made.items():
            own = made.steps / made.seconds
            share = made.samples / self.samples[person]
            part = "" if share > 0.995 else f"{percent(share)} of points: "
            clauses.setdefault(person, []).append(f"{part}{self._words(which, own, made)}")
        return clauses

    def _words(self, which: int, own: float, made: _Stretches) -> str:
        if which == 0:
            return f"uneven steps, interpolated to {self.rate:g} Hz without a filter"
        begin = f"{own:.4g} Hz, resampled to {self.rate:g} Hz: "
        if which < 0:
            return f"{begin}{percent(1 - own / self.rate)} of points are interpolated"
        width = rows_of_mean(made.steps, made.seconds, self.rate)
        if width > 1:
            return f"{begin}each point is of the mean of {width} rows"
        return f"{begin}interpolated without a filter, waves above {self.rate / 2:g} Hz fold over"


def resampled_sentences(by_person: Mapping[str, list[str]]) -> list[str]:
    """Return a sentence for each person, or for several of whom the same holds."""
    alike: dict[str, list[str]] = {}
    for person, clauses in by_person.items():
        alike.setdefault("; ".join(clauses), []).append(person)
    lines = [f"{listed(people, _SHOWN)}: {words}." for words, people in alike.items()]
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = ["More people's rows are resampled: preparation.json."]
    return lines


def resampled_people(folder: Path | str) -> dict[str, list[str]]:
    """Return clauses on how each person's rows were resampled; {} if no import made `folder`.

    Raises DataError where the record is not as an import writes it.
    """
    path = Path(folder, REPORT_FILE)
    if not path.is_file():
        return {}
    try:
        record: Any = json.loads(path.read_text("utf-8"))
        people = record.get("resampled", {})
        return {
            str(person): [str(clause) for clause in clauses] for person, clauses in people.items()
        }
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DataError(
            f"{path}: resampled: got {cut(error)}, expected sentences by person, as `fedsub data "
            "import` writes them. Import again"
        ) from error
