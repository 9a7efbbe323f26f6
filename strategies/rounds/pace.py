"""The pace of a round: the time in which most clients answer, and the deadlines that follow.

A round's own clients set it: the time within which more than half of those asked have answered
usably. So fewer than half can neither hold it up nor hurry it; a server that was away, or a phase
in which all train longer, makes nobody slow; and nothing of it has to outlive the process.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

#: Times as long as most took: who takes longer is slow. What people have and what their devices can
#: do differ, and a round that takes four times as long still is worth their part in it.
SLACK = 4.0
#: Nobody is slow within these seconds, and those by which it looks late for its message: a device
#: that rested has its programs to start.
LEAST_SECONDS = 15.0
#: Nobody whose own pace is unknown is given up within these.
RECOVERY_SECONDS = 180.0
#: Times as long as expected: so long is a client waited for whose own pace is known.
LATE = 2.0


def most_of(asked: int, quorum: float) -> int:
    """Return the number of answers that set the pace: more than half, and the quorum's."""
    return max(asked // 2 + 1, math.ceil(quorum * asked))


@dataclass
class Pace:
    """The pace of one exchange, from the times of its answers.

    Parameters
    ----------
    timeout : seconds that answers are waited for at most.
    asked : number of clients asked.
    most : how many usable answers set the pace (:func:`most_of`); 0: nothing does.
    quorum : how many usable answers the round cannot do without.
    took : for how many seconds each client had been waited for when it answered usably.
    late : by how many seconds each client may look late for its message (:mod:`fedsub_core.looks`).
    """

    timeout: float
    asked: int = 0
    most: int = 0
    quorum: int = 0
    took: dict[str, float] = field(default_factory=dict)
    late: Mapping[str, float] = field(default_factory=dict)

    @property
    def limit(self) -> float:
        """Seconds after which an answer is slow; infinite until most have come."""
        return self.limit_without(0)

    def limit_without(self, offline: int) -> float:
        """Return the seconds after which nobody offline is waited for; infinite if not yet known.

        The clients that are not offline set the pace, if they are a quorum.
        """
        usual = self._usual(offline)
        return math.inf if usual is None else max(LEAST_SECONDS, SLACK * usual)

    def deadline(self, awaited: Collection[str], slowness: Mapping[str, float]) -> float:
        """Return the seconds after which none of the `awaited` clients is waited for.

        `slowness` has the time that a client took in earlier exchanges, over what most took. Who
        is not in it has never answered, and gets the time that a device takes to come back.
        """
        if (usual := self._usual(0)) is None:
            return self.timeout
        longest = min(self.timeout, max(RECOVERY_SECONDS, SLACK * usual))
        if not slowness.keys() >= set(awaited):
            return longest
        expected = usual * max([1.0, *(slowness[client] for client in awaited)])
        late = max((self.late.get(client, 0.0) for client in awaited), default=0.0)
        return min(longest, max(LEAST_SECONDS + late, LATE * expected))

    @property
    def slow(self) -> frozenset[str]:
        """The clients who answered usably, and slowly."""
        limit, late = self.limit, self.late
        return frozenset(c for c, seconds in self.took.items() if seconds > limit + late.get(c, 0))

    def slowness(self) -> dict[str, float]:
        """Return the time that each client took over what most took; empty until most answered."""
        return {c: self.slowness_of(s) for c, s in self.took.items()} if self._usual(0) else {}

    def slowness_of(self, seconds: float) -> float:
        """Return a time over the time that most took; 0 where that is not known."""
        usual = self._usual(0)
        return seconds / usual if usual else 0.0

    def _usual(self, offline: int) -> float | None:
        """Return the seconds within which most of those who are not offline answered usably."""
        if self.most == 0:
            return None
        needed = min(self.most, max((self.asked - offline) // 2 + 1, self.quorum))
        return sorted(self.took.values())[needed - 1] if needed <= len(self.took) else None
