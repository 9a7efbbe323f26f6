"""The pace of a round: who is slow in it, and when nobody is waited for any more.

A round's own clients set it: the time within which more than half of those asked have answered
usably. So fewer than half can neither hold it up nor hurry it; a server that was away, or a phase
in which all train longer, makes nobody slow; and nothing of it has to outlive the process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

#: Times as long as most took: who takes longer is slow. What people have and what their devices can
#: do differ, and a round that takes four times as long still is worth their part in it.
SLACK = 4.0
#: Nobody is slow within these seconds: a SuperNode looks for messages every 3 s, and a device that
#: rested has its programs to start.
LEAST_SECONDS = 15.0
#: Nobody is given up within these: so long takes a device, or its link, that died and comes back.
RECOVERY_SECONDS = 180.0


def most_of(asked: int, quorum: float) -> int:
    """Return how many of those asked set the pace: more than half, and as many as the quorum."""
    return max(asked // 2 + 1, math.ceil(quorum * asked))


@dataclass
class Pace:
    """How fast the clients of one exchange answer.

    Parameters
    ----------
    timeout : seconds that answers are waited for at most.
    most : how many usable answers set the pace (:func:`most_of`); 0: nothing does.
    took : for how many seconds each client had been waited for when it answered usably.
    """

    timeout: float
    most: int = 0
    took: dict[str, float] = field(default_factory=dict)

    @property
    def limit(self) -> float:
        """Seconds after which an answer is slow; infinite until most have come."""
        if not 0 < self.most <= len(self.took):
            return math.inf
        return max(LEAST_SECONDS, SLACK * sorted(self.took.values())[self.most - 1])

    @property
    def deadline(self) -> float:
        """Seconds after which nobody is waited for."""
        return min(self.timeout, max(RECOVERY_SECONDS, self.limit))

    @property
    def slow(self) -> frozenset[str]:
        """Who answered usably, and slowly."""
        limit = self.limit
        return frozenset(client for client, seconds in self.took.items() if seconds > limit)
