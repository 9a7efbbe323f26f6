"""Twins: what people reach without others, against which methods are held.

There are two: heads that are solved of each person's own samples alone, and the model of the run
trained alone. All methods of a run go by the one with the higher mean over people. It is never
chosen person by person: the better of two numbers of a test part is above both by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

LOCAL, OWN = "local", "own heads"
#: Each twin in words.
IN_WORDS = {
    OWN: "a head solved of each person's own samples alone",
    LOCAL: "the same model trained alone",
}
#: Numbers of clients by round.
ByRound = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Scores:
    """Macro F1 by round and client, of a method's models and of own heads beside them."""

    models: ByRound
    own_heads: ByRound

    @property
    def last(self) -> int:
        """The last evaluated round; -1: there is none."""
        return max(self.models, default=-1)


def better_twin(local: Mapping[str, float], own_heads: Mapping[str, float]) -> str:
    """Return the twin with the higher mean macro F1 over the people who have both; "": no twin.

    If only one has numbers, it is the twin.
    """
    if not local or not own_heads:
        return LOCAL if local else OWN if own_heads else ""
    both = sorted(local.keys() & own_heads.keys())
    if not both:
        return LOCAL
    means = (np.mean([of[client] for client in both]) for of in (local, own_heads))
    trained, solved = means
    return OWN if solved > trained else LOCAL


def twin_of(
    local: Mapping[str, float], *own_heads: Mapping[str, float]
) -> tuple[str, Mapping[str, float]]:
    """Return the twin and everybody's macro F1 by it; "" and nothing without one.

    Parameters
    ----------
    local : by person, trained alone.
    own_heads : by person, first those beside `local`: of the same people in the same round. The
        first that are any count.
    """
    heads = next((one for one in own_heads if one), {})
    name = better_twin(local, heads)
    return name, heads if name == OWN else local


@dataclass(frozen=True)
class HeldAgainst:
    """A method's gain over its twin, in the fields of a summary; None without a twin."""

    twin: str | None = None
    gain_over_twin: float | None = None
    worse_than_twin: float | None = None


def held_against(method: str, ours: Scores, local: Scores | None) -> HeldAgainst:
    """Return a method's gain over the twin of its run; `local` is None in a run without it.

    With own heads it is compared in its last evaluated round, with `local` in the last round that
    both evaluated.
    """
    alone = local if local is not None and local.models else Scores({}, ours.own_heads)
    heads = (of.get(max(of, default=-1), {}) for of in (alone.own_heads, ours.own_heads))
    twin, _ = twin_of(alone.models.get(alone.last, {}), *heads)
    if not twin or method == twin:
        return HeldAgainst()
    theirs = ours.own_heads if twin == OWN else alone.models
    both = max(ours.models.keys() & theirs.keys(), default=-1)
    first, second = ours.models.get(both, {}), theirs.get(both, {})
    # Rounded, so that who is equal in sum is not worse by the last bit.
    gains = [round(first[client] - second[client], 12) for client in first.keys() & second.keys()]
    if not gains:
        return HeldAgainst(twin)
    worse = sum(gain < 0 for gain in gains) / len(gains)
    return HeldAgainst(twin, float(np.mean(sorted(gains))), worse)
