"""What days of a fleet leave: a row a day, a row a person, and a table of a few of them."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsub.fleet.habits import DAY, HOUR, SELDOM, Habits
from fedsub_core.metrics import MetricRow

#: Counts of a round that are summed over a day's rounds and people.
COUNTED = ("late_replies", "missing_replies", "refused_replies", "messages_resent")
BYTES_UP, BYTES_DOWN, F1 = "bytes_up_sent", "bytes_down_sent", "macro_f1"
BYTES = (BYTES_UP, BYTES_DOWN)


@dataclass
class Days:
    """The days of a fleet, as its rounds tell of them.

    Parameters
    ----------
    people : everybody's habits, by client.
    """

    people: Mapping[str, Habits]
    #: By round: when it ended, s, and what is known of it.
    _rounds: list[tuple[float, list[MetricRow]]] = field(default_factory=list)

    def note(self, moment: float, rows: Iterable[MetricRow]) -> None:
        """Note a round that ended at a moment, s."""
        wanted = {*COUNTED, *BYTES, F1}
        kept = [row for row in rows if row.metric in wanted and row.label is None and row.client]
        self._rounds.append((moment, kept))

    def by_day(self, days: int) -> list[dict[str, Any]]:
        """Return a row for each day.

        ``served`` are people whose upload was used on that day, ``ever_served`` up to then. F1 is
        everybody's last macro F1 that a device told the server, its mean over people.
        """
        newest, ever = dict[str, float](), set[str]()
        found = []
        for day in range(days):
            of_day = [rows for end, rows in self._rounds if day <= end / DAY < day + 1]
            rows = [row for one in of_day for row in one]
            newest |= {row.client: row.value for row in rows if row.metric == F1}
            served = {row.client for row in rows if row.metric == BYTES_UP}
            ever |= served
            sums = {name: sum(r.value for r in rows if r.metric == name) for name in COUNTED}
            size = {name: sum(r.value for r in rows if r.metric == name) for name in BYTES}
            rare = [value for c, value in newest.items() if self.people[c].kind == SELDOM]
            there = [h.share(day * DAY, (day + 1) * DAY) for h in self.people.values()]
            found.append(
                {
                    "day": day + 1,
                    "rounds": len(of_day),
                    "there": round(float(np.mean(there)), 4),
                    "uploads": sum(row.metric == BYTES_UP for row in rows),
                    "served": len(served),
                    "ever_served": len(ever),
                    "f1": _mean(list(newest.values())),
                    "f1_seldom": _mean(rare),
                    **{name: int(value) for name, value in sums.items()},
                    **{name.removesuffix("_sent"): int(value) for name, value in size.items()},
                }
            )
        return found

    def hours_to(self, target: float) -> float | None:
        """Return the hours until the mean F1 over all people is the target; None: it never is.

        Whom no device's answer is known of counts 0.
        """
        newest = dict[str, float]()
        for end, rows in self._rounds:
            newest |= {row.client: row.value for row in rows if row.metric == F1}
            if sum(newest.values()) >= target * len(self.people):
                return end / HOUR
        return None

    def by_person(self, days: int) -> list[dict[str, Any]]:
        """Return a row for each person: habits, how often it was served, its last F1."""
        uploads, first = defaultdict[str, int](int), dict[str, float]()
        newest = dict[str, float]()
        for end, rows in self._rounds:
            newest |= {row.client: row.value for row in rows if row.metric == F1}
            for row in rows:
                if row.metric == BYTES_UP:
                    uploads[row.client] += 1
                    first.setdefault(row.client, end / DAY)
        return [
            {
                "person": client,
                "kind": own.kind,
                "there": round(own.share(0.0, days * DAY), 4),
                "new_phones": len(own.phones),
                "left_on_day": "" if own.left == np.inf else round(own.left / DAY, 2),
                "uploads": uploads[client],
                "first_served_on_day": round(first[client], 2) if client in first else "",
                "f1": round(newest[client], 4) if client in newest else "",
            }
            for client, own in self.people.items()
        ]

    def by_kind(self, days: int) -> list[dict[str, Any]]:
        """Return a row for each kind of people."""
        found, people = [], self.by_person(days)
        for kind in dict.fromkeys(sorted(str(one["kind"]) for one in people)):
            of_kind = [one for one in people if one["kind"] == kind]
            found.append(
                {
                    "kind": kind,
                    "people": len(of_kind),
                    "there": round(float(np.mean([one["there"] for one in of_kind])), 3),
                    "uploads": round(float(np.mean([one["uploads"] for one in of_kind])), 1),
                    "never_served": sum(not one["uploads"] for one in of_kind),
                    "f1": _mean([one["f1"] for one in of_kind if one["f1"] != ""]),
                }
            )
        return found


def _mean(values: Sequence[float]) -> float | str:
    return round(float(np.mean(values)), 4) if values else ""


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with the first one's columns."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
