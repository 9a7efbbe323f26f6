"""What a run is doing now, for those who watch it from another thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

#: What a run can be doing, in the order of a round.
GATHERING, TRAINING, EVALUATING, AGGREGATING = "gathering", "training", "evaluating", "aggregating"


@dataclass(frozen=True)
class Now:
    """What a run is doing; replaced, never changed, so that it is whole to whoever looks.

    Parameters
    ----------
    round : that it is in; 0 is the handshake.
    phase : one of those above.
    since : when that began, seconds since 1970.
    limit : how long answers are waited for at most, s; 0 where none are.
    """

    round: int = 0
    phase: str = GATHERING
    since: float = field(default_factory=time.time)
    limit: float = 0.0
