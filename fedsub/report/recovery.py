"""What happens to a method when people's data come during the run: how deep it falls, how long.

A round in which somebody is tested on more samples than before brought data. Macro F1 then is
measured on what is new, too, so a drop is the model's and the test's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedsub.report.frame import Trace


@dataclass(frozen=True)
class Recovery:
    """Data came in `round` to `people` people: mean macro F1 before, its drop, rounds until back.

    ``rounds`` is None where it did not come back before data came again or the run ended.
    """

    method: str
    round: int
    people: int
    before: float
    drop: float
    rounds: int | None


def recoveries(trace: Trace) -> list[Recovery]:
    """Return one for each round of `trace` that brought data; people who are new do not count."""
    sizes, scores = trace.people["examples"], trace.people["macro_f1"]
    both = sizes.there[1:] & sizes.there[:-1]
    with np.errstate(invalid="ignore"):
        grew = both & (sizes.values[1:] > sizes.values[:-1])
    events = [int(i) + 1 for i in np.flatnonzero(grew.any(1))]
    found = []
    for event, end in pairwise([*events, len(sizes.rounds)]):
        before = float(scores.means[event - 1])
        after = scores.means[event:end]
        back = np.flatnonzero(after >= before)
        rounds = scores.rounds[event + int(back[0])] - scores.rounds[event] if len(back) else None
        drop = max(0.0, before - float(np.nanmin(after))) if np.isfinite(after).any() else np.nan
        people = int(grew[event - 1].sum())
        found.append(
            Recovery(trace.method, sizes.rounds[event], people, before, float(drop), rounds)
        )
    return found
