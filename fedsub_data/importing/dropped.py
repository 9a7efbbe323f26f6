"""Counts of what an import dropped or mended, by reason and person, with the first place."""

from dataclasses import dataclass, field
from enum import Enum

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.resampled import Resampled


class Why(Enum):
    """Reasons why rows or windows are dropped: each in words, and the option that decides it."""

    MISSING = ("rows with an empty cell or NaN", "", "missing", "interpolate")
    TIMELESS = ("rows without a time that can be read", "", "time", "COLUMN")
    TEXT = ("rows with text where a number is expected", "", "not-numbers", "stop")
    REPEATED = ("rows that repeat a time or a sample", "", "duplicates", "keep")
    FIRST = ("first rows that are no part of a recording", "", "first-rows", "keep")
    UNLABELLED = ("rows or windows without a label", "", "unlabelled", "stop")
    MIXED = ("windows of several labels", "a lower ", "purity", "")
    LEFT_OVER = ("rows left over, too few for a window", "a shorter ", "window", "")
    FEW = ("people with too few samples", "longer recordings, or a shorter ", "window", "")
    NOBODY = ("rows of nobody", "", "subject", "COLUMN")
    BAD_LINES = ("lines with too many or too few columns", "", "bad-lines", "stop")


@dataclass
class Dropped:
    """Counts of dropped rows by reason and person, their first places, and the resampled rows.

    The `options` of the import, and whether rows are a `signal`, decide what is advised.
    """

    counts: dict[Why, dict[str, int]] = field(default_factory=dict)
    first: dict[Why, str] = field(default_factory=dict)
    resampled: Resampled = field(default_factory=Resampled)
    options: ImportOptions = field(default_factory=ImportOptions)
    signal: bool = True

    def add(self, why: Why, person: str, count: int, place: str = "") -> None:
        """Count what is dropped; 0 is nothing."""
        if count:
            by = self.counts.setdefault(why, {})
            by[person] = by.get(person, 0) + count
            if place:
                self.first.setdefault(why, place)

    def total(self, why: Why) -> int:
        """Return the count of one reason, over people."""
        return sum(self.counts.get(why, {}).values())

    def sentences(self) -> list[str]:
        """Return a line for each reason: how many, of how many people, the first, the option."""
        lines = []
        for why, by in self.counts.items():
            words, hint = why.value[0], self._way_out(why)
            whose = f" ({len(by)} people)" if set(by) != {""} and why != Why.FEW else ""
            first = f"; the first: {self.first[why]}" if why in self.first else ""
            lines.append(
                f"Dropped {self.total(why):,} {words}{whose}{first}. To change this: {hint}."
            )
        return lines

    def _way_out(self, why: Why) -> str:
        """Return the option that would change it, unless that was given already."""
        options = self.options
        match why:
            case Why.MISSING if not self.signal:
                return f"fill them before, or {spelt('missing', 'stop')}"
            case Why.MISSING if options.missing == "interpolate":
                longer = f"a longer {spelt('gap')}"
                return f"{longer}; before a column's first value and behind its last is none"
            case Why.TIMELESS if options.time:
                return "correct them in the file"
            case Why.NOBODY if options.subject:
                return "write there whose they are"
            case Why.FEW if options.fewest > 2:
                return f"a lower {spelt('fewest')}"
        _, begin, key, value = why.value
        also = " or stop" if why in (Why.MISSING, Why.REPEATED) else ""
        return f"{begin}{spelt(key, value)}{also}"

    def table(self) -> dict[str, dict[str, int]]:
        """Return the counts by reason in words and person, as JSON has them."""
        return {why.value[0]: dict(by) for why, by in self.counts.items()}


def stopped(what: str, count: int, place: str, do: str) -> DataError:
    """Return the error for something that an option would let pass.

    Parameters
    ----------
    what : it in words, in the plural.
    count : how many there are, where it was looked.
    place : where the first stands and what it is.
    do : the option.
    """
    return DataError(f"{place}: {what} ({count:,} of this person). {do}")
