"""What happens to a method when people's data come during the run: how deep it falls, how long.

A round in which somebody is tested on more samples than before is the first after data came; where
not every round is evaluated, they may have come some rounds earlier, and were learnt since. Macro
F1 then is measured on what is new, too, so a drop is the model's and the test's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np

from fedsub.report.frame import Trace
from fedsub_core.metric_names import NEW

#: Rounds after which classes that came are looked at again.
LATER = 10


@dataclass(frozen=True)
class Recovery:
    """Data came to `people` people in `round`, or before it where not all are evaluated.

    ``before`` is the mean macro F1 until then, ``drop`` by how much it fell. ``rounds`` until it
    was back is None where it did not come back before data came again or the run ended. ``new``
    and ``later`` are the mean F1 of the classes that came, over the people to whom they did, in
    that round and :data:`LATER` rounds later; None where no class came or nothing was tested.
    """

    method: str
    seed: int
    round: int
    people: int
    before: float
    drop: float
    rounds: int | None
    new: float | None = None
    later: float | None = None


def recoveries(trace: Trace) -> list[Recovery]:
    """Return one for each round of `trace` that brought data; people who are new do not count."""
    sizes, scores = trace.people["examples"], trace.people["macro_f1"]
    if not scores.rounds:  # of a target there is no macro F1
        return []
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
        people = [c for c, more in zip(sizes.columns, grew[event - 1], strict=True) if more]
        came = sizes.rounds[event]
        soon = came + LATER in sizes.rounds[event:end]
        found.append(
            Recovery(
                trace.method,
                trace.seed,
                came,
                len(people),
                before,
                float(drop),
                rounds,
                _new(trace, came, people),
                _new(trace, came + LATER, people) if soon else None,
            )
        )
    return found


def _new(trace: Trace, round: int, people: Sequence[str]) -> float | None:
    """Return the mean F1 of the classes that came last to `people`."""
    scores = trace.people[NEW].at(round) if NEW in trace.people else {}
    theirs = [scores[client] for client in people if client in scores]
    return fmean(theirs) if theirs else None
