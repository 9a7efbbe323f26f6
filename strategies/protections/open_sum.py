"""A sum of vectors that was prepared: who is in it, by which levels, and how few are too few."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flwr.app import ConfigRecord

from fedsub_core.errors import RunError
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.summation import Summation
from fedsub_core.wire.bundles import Declaration

#: Rounding may move a change by one in so many of what it may be long.
LEAST_OF_CLIP = 10


class TooFew(RunError):
    """Fewer people than a sum must be of."""


@dataclass(frozen=True, eq=False)
class OpenSum:
    """A sum whose people have shown keys and shared secrets, before their vectors come.

    Parameters
    ----------
    summation : the protocol's side of the server.
    noised : whether the sum gets noise.
    vectors : what each of them sends, by client, ascending.
    records : what goes beside their downloads.
    left : who was asked, and is not in it, for it did not say what it takes.
    """

    summation: Summation
    levels: Levels
    noised: bool
    vectors: Mapping[str, Declaration]
    records: Mapping[str, ConfigRecord]
    left: frozenset[str]


def check_clip(round: int, levels: Levels, numbers: int, longest: float) -> None:
    """Refuse a bound on changes that rounding would fill."""
    moved = levels.moved_by_rounding(numbers)
    if moved > longest / LEAST_OF_CLIP:
        raise RunError(
            f"round {round}: dp-clip = {longest:g}: got {numbers} numbers, moved by "
            f"{moved:.2g} as they are rounded, expected a tenth of it; raise dp-clip, or lower "
            "secure-range"
        )


def most_weight(examples: Sequence[int], most: float) -> int:
    """Return the most that a person may weigh, in samples: `most` times the median (0: any)."""
    if not most or not examples:
        return max(examples, default=1)
    return max(1, int(most * statistics.median_high(examples)))
