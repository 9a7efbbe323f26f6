"""A person's memory of sums that it opened: to which others it adds the same numbers no more.

Two sums of the same numbers, whose people differ in one person, tell that person's numbers. So a
person opens sums of the same numbers only if every group of people whom these sums tell apart is of
`least` people or more. Then whatever is computed of all sums that it was in, by adding and
subtracting, is of as many. Of sums that it was not in it knows nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Self

from fedsub_core.secure.transcript import digest

#: A fault: what came, and what was expected.
Fault = tuple[str, str]


@dataclass(frozen=True)
class OpenedSum:
    """A sum that a person opened, or is asked to open.

    Parameters
    ----------
    what : name of the numbers, such as "statistics".
    vector : hash of the person's own numbers; "": they may be others in a repeated round.
    sent, silent : people whose numbers are in it, and people whose are not, as far as is known.
    whole : whether all people who are in it are known.
    least : people at least in what any two sums of these numbers differ by.
    date : of the day, by the device's clock, which nothing else depends on.
    """

    what: str
    run: str
    round: int
    vector: str
    sent: tuple[str, ...]
    silent: tuple[str, ...] = ()
    whole: bool = False
    least: int = 0
    date: str = ""

    def without(self, other: OpenedSum) -> list[str]:
        """Return the people of this sum who are known not to be in another one, ascending."""
        gone = set(self.sent) - set(other.sent)
        return sorted(gone if other.whole else gone & set(other.silent))

    @property
    def people(self) -> str:
        """Hash of the vector and of the people."""
        return digest([self.vector, sorted(self.sent), self.whole])[:16]

    def __str__(self) -> str:
        day = f", opened on {self.date}" if self.date else ""
        return f"the sum of round {self.round} of run {self.run!r}{day}"


class OpenedSums:
    """Sums that a person opened, of all runs and methods.

    Parameters
    ----------
    today : the date of those that are opened now.
    lost : why it is not known which were opened; "": it is.
    """

    def __init__(self, sums: Iterable[OpenedSum] = (), today: str = "", lost: str = "") -> None:
        self.sums, self.today, self.lost = list(sums), today, lost

    @classmethod
    def read(cls, kept: bytes, today: str = "") -> Self:
        """Inverse of :meth:`written`; raises ValueError if damaged or of another release."""
        try:
            found = json.loads(kept)
            people = [tuple(names) for names in found["people"]]
            each = [(one, people[one["sent"]], people[one["silent"]]) for one in found["sums"]]
            return cls((OpenedSum(**one | {"sent": s, "silent": n}) for one, s, n in each), today)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"opened sums: {error!r}") from None

    def written(self) -> bytes:
        """Return the memory as bytes; the same people stand in it once."""
        people: dict[tuple[str, ...], int] = {}
        sums = []
        for one in self.sums:
            sent, silent = (
                people.setdefault(names, len(people)) for names in (one.sent, one.silent)
            )
            sums.append(asdict(one) | {"sent": sent, "silent": silent})
        return json.dumps({"people": list(people), "sums": sums}).encode()

    def of_run(self, run: str) -> bool:
        """Return whether a sum of a run was opened."""
        return any(one.run == run for one in self.sums)

    def add(self, new: OpenedSum) -> None:
        """Remember a sum that is opened now."""
        if all(replace(one, date="") != new for one in self.sums):
            self.sums.append(replace(new, date=self.today))

    def fault(self, new: OpenedSum, planned: bool = False) -> Fault | None:
        """Return the fault of a sum beside those opened; None without one.

        Parameters
        ----------
        planned : whether people of `new` may still go silent: what is a fault then stays one.
        """
        if self.lost:
            return f"round {new.round}", f"none: which sums it opened is lost ({self.lost})"
        known = [
            one
            for one in self.sums
            if one.what == new.what or (one.vector == new.vector and new.vector)
        ]
        for one in known:
            if fault := _apart(one, new, planned):
                return fault
        return _joint([*(one for one in known if one.whole), new], planned) if new.whole else None


def _apart(one: OpenedSum, new: OpenedSum, planned: bool) -> Fault | None:
    """Return the fault of two sums of the same numbers; None without one."""
    again = (one.run, one.what) == (new.run, new.what)
    if again and new.vector and one.vector != new.vector:
        return "another vector", f"that in {one}: weight, each and samples of then"
    least, limit = max(one.least, new.least), inf
    if again and not (one.whole and new.whole):
        # Of people whom it knows in part it cannot count how many differ: in a run none may.
        gone, more = (sorted({*a} - {*b}) for a, b in ((one.sent, new.sent), (new.sent, one.sent)))
    else:
        gone, more, limit = one.without(new), new.without(one), least
    if 0 < len(gone) < limit:
        expected = f"everybody of {one}" + _or(limit, f"at least {least} of them missing")
        return f"a sum without {gone}", expected
    if 0 < len(more) < limit and not planned:
        expected = f"nobody but those of {one}" + _or(limit, f"at least {least} others")
        return f"a sum with {more}", expected
    return None


def _or(limit: float, other: str) -> str:
    return "" if limit == inf else f", or {other}"


def _joint(sums: Sequence[OpenedSum], planned: bool) -> Fault | None:
    """Return the fault of sums of the same numbers that together tell few people apart."""
    inside = list({frozenset(one.sent) for one in sums})
    alike: dict[tuple[bool, ...], list[str]] = {}
    for client in sorted(frozenset().union(*inside)):
        alike.setdefault(tuple(client in people for people in inside), []).append(client)
    if planned:
        # Of the others it is not known yet; the person itself is in all of them.
        in_all = (True,) * len(inside)
        alike = {in_all: alike.get(in_all, [])}
    least = max(one.least for one in sums)
    fewest = min(alike.values(), key=len)
    if len(fewest) >= least or len(inside) == 1:
        return None
    before = ", ".join(str(one) for one in sums[:-1])
    expected = f"{least} people at least in whatever it and {before} tell apart"
    return f"a sum that tells {fewest} apart from all others", expected
