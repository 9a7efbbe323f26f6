"""Comparison of methods: bands, differences with intervals, gains over their twin.

A method is called better than another only where the 95 % interval of the mean difference leaves
0 out. The interval is a paired percentile bootstrap (Efron and Tibshirani 1993, chapter 13): people
are drawn with replacement, each with the scores of both methods, so that what makes a person easy
or hard for everybody cancels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import stdtrit

from fedsub.report.frame import Floats, Frame, Grid, Trace
from fedsub_core.metric_names import OWN_HEADS
from fedsub_core.seeds import derive_seed
from fedsub_server.method_summary import FEWEST as FEWEST_PEOPLE
from fedsub_server.twins import LOCAL, OWN, better_twin

RESAMPLES = 10_000
#: People of whom a verdict is believed at least: of fewer not even all can gain by chance in
#: less than 5 % of cases (the sign test).
FEWEST = 6
_AT_ONCE = 4_000_000  # numbers that one block of resamples may take


@dataclass(frozen=True)
class Pair:
    """Mean over `n` people of the score of `first` less that of `second`, and its 95 % interval.

    Scores are :attr:`Frame.compared`.

    `round` says in words of which round, or of which round each.
    """

    first: str
    second: str
    round: str
    n: int
    difference: float
    low: float | None
    high: float | None

    @property
    def judged(self) -> bool:
        """Whether there are people enough to call one better."""
        return self.n >= FEWEST

    @property
    def better(self) -> str:
        """The better method; "" where the interval holds 0, or none is :attr:`judged`."""
        if not self.judged or self.low is None or self.high is None:
            return ""
        if self.low <= 0 <= self.high:
            return ""
        return self.first if self.low > 0 else self.second

    def verdict(self, method: str) -> str:
        """Return in words what the interval says of one of the two methods."""
        if not self.judged:
            return "too few people to say"
        if not self.better:
            return "no difference shown"
        return "better" if self.better == method else "worse"


def band(grid: Grid, fewest: int = FEWEST_PEOPLE) -> tuple[Floats, Floats]:
    """Return low and high [rounds] of the 95 % interval of the mean (Student t).

    nan where fewer than `fewest` are there.
    """
    n = grid.there.sum(1)
    away = np.where(grid.there, grid.values - grid.means[:, None], 0)
    spread = np.sqrt((away**2).sum(1) / np.maximum(n - 1, 1))
    half = np.where(n >= fewest, stdtrit(np.maximum(n - 1, 1), 0.975), np.nan) * spread
    half = half / np.sqrt(np.maximum(n, 1))
    return grid.means - half, grid.means + half


def differences(frame: Frame, first: str, second: str) -> tuple[str, dict[str, float]]:
    """Return per person the score of `first` less `second`, and the rounds it is of, in words.

    Where both are finished each is taken as it ended, however many rounds it had; else in the last
    round both tested. A person tested in several seeds has the mean over them. ("", {}) where there
    is no such round. The second may be people's own heads (:data:`OWN`), which the first's devices
    tested beside.
    """
    found: dict[str, list[float]] = {}
    last = ""
    theirs_of = frame.of(first if second == OWN else second)
    others, score = {trace.repeat: trace for trace in theirs_of}, _score(frame)
    for trace in frame.of(first):
        if trace.repeat not in others:
            continue
        other = others[trace.repeat]
        a, b = score(trace), own_heads(other) if second == OWN else score(other)
        both = max(set(a.rounds) & set(b.rounds), default=-1)
        ends = both, both
        if trace.finished and other.finished and a.rounds and b.rounds:
            ends = a.rounds[-1], b.rounds[-1]
        ours, theirs = a.at(ends[0]), b.at(ends[1])
        people = sorted(ours.keys() & theirs.keys())
        for person in people:
            found.setdefault(person, []).append(ours[person] - theirs[person])
        if people:
            last = " and ".join(map(str, dict.fromkeys(ends)))
    # Rounded, so that who is equal in sum is not worse by the last bit.
    means = {person: round(sum(each) / len(each), 12) for person, each in found.items()}
    return last, dict(sorted(means.items()))


def interval(values: Floats) -> tuple[float, float] | None:
    """Return the 95 % percentile bootstrap interval of the mean of `values [n]`.

    None of fewer than five, as in a summary: resamples of a few repeat them.
    """
    n = len(values)
    if n < FEWEST_PEOPLE or not np.isfinite(values).all():
        return None
    # A stream of the page's own, equal for equal people: all pairs are drawn alike.
    rng = np.random.default_rng(derive_seed(0, "", 0, "bootstrap of a report"))
    block = max(1, _AT_ONCE // n)
    parts = [
        values[rng.integers(0, n, (min(block, RESAMPLES - done), n))].mean(1)
        for done in range(0, RESAMPLES, block)
    ]
    low, high = np.percentile(np.concatenate(parts), [2.5, 97.5])
    return float(low), float(high)


def pairs(frame: Frame) -> list[Pair]:
    """Compare every two methods that tested the same people, and all with own heads, in order."""
    found = []
    for first, second in combinations((*frame.methods, OWN), 2):
        round, each = differences(frame, first, second)
        if not each:
            continue
        values = np.array(list(each.values()))
        ends = interval(values) or (None, None)
        found.append(Pair(first, second, round, len(values), float(values.mean()), *ends))
    return found


def own_heads(trace: Trace) -> Grid:
    """Return the macro F1 of people's own heads, which a method's devices tested beside it."""
    return trace.people.get(OWN_HEADS[0], Grid.of({}))


def _score(frame: Frame) -> Callable[[Trace], Grid]:
    """Return the scores by which people are better or worse off, :attr:`Frame.compared`."""

    def of(trace: Trace) -> Grid:
        grid = trace.people[frame.score]
        return replace(grid, values=-grid.values) if frame.score == "mae" else grid

    return of


def twin(frame: Frame) -> str:
    """Return the twin of a frame's methods; "" without one."""
    return better_twin(*_twins(frame))


def means_of_twins(frame: Frame) -> dict[str, float]:
    """Return the mean score, over people and seeds, of each twin that there is."""
    names = zip((LOCAL, OWN), _twins(frame), strict=True)
    return {name: float(np.mean(list(of.values()))) for name, of in names if of}


def _twins(frame: Frame) -> tuple[dict[str, float], dict[str, float]]:
    """Return the last scores of `local` and of own heads, by person and seed."""
    alone = frame.of(LOCAL)
    # Beside `local` they are of the same people in the same round.
    beside = alone if any(own_heads(trace).rounds for trace in alone) else frame.traces
    return _last(alone, _score(frame)), _last(beside, own_heads)


def _last(traces: Sequence[Trace], of: Callable[[Trace], Grid]) -> dict[str, float]:
    """Return the numbers of each trace's last round with any, by person and seed."""
    grids = [(trace.repeat, grid) for trace in traces if (grid := of(trace)).rounds]
    return {
        f"{person} {seed}": value
        for seed, grid in grids
        for person, value in grid.at(grid.rounds[-1]).items()
    }


def gains(frame: Frame) -> dict[str, dict[str, float]]:
    """Return every person's gain in score over the twin, by method; empty without a twin."""
    over = twin(frame)
    others = [name for name in frame.methods if name != over] if over else []
    found = {name: differences(frame, name, over)[1] for name in others}
    return {name: each for name, each in found.items() if each}
