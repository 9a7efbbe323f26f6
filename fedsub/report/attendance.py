"""Who took part in which round: of how many people a mean is, who was silent, refused, resting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedsub.report.frame import Frame, Grid, Trace
from fedsub.report.maps import bare, height, name_rows
from fedsub.report.svg import LOOK, WIDTH, Drawn, drawn
from fedsub_data.inspection.drawing import LACKING
from fedsub_server.task_scores import TaskScores

#: What a person can be in a round, by its number in :attr:`Attendance.states`. Who is several of
#: them is the last.
UNKNOWN, NOT_ASKED, TRAINED, TESTED, RESTING, REFUSED, MISSING = range(7)
STATES = ("unknown", "not asked", "took part", "tested", "resting", "refused", "missing")
#: States in which somebody who was wanted is not in a round's numbers as they should be.
ABSENT = (RESTING, REFUSED, MISSING)
ATTENDANCE_EXPLAINED = (
    "A row is a person. Missing: asked, and no answer by the deadline. Refused: what it sent could "
    "not be used. Resting: connected and not asked, since it was silent or slow before. Not asked: "
    "not connected, not drawn, or left out. White: nobody had heard of it yet."
)
#: Groups of people by the share of rounds in which they took part: words, from, below.
_OFTEN = (("fewer than a third", 0.0, 1 / 3), ("fewer than two thirds", 1 / 3, 2 / 3),
          ("more", 2 / 3, np.inf))  # fmt: skip
_FROM = {TRAINED: "bytes_up_sent", TESTED: "loss", RESTING: "resting",
         REFUSED: "refused_replies", MISSING: "missing_replies"}  # fmt: skip
_COLOURS = ("#ffffff", LACKING, "#cfe3f2", "#0072B2", "#F0E442", "#CC79A7", "#D55E00")


@dataclass(frozen=True, eq=False)
class Attendance:
    """Who was what in each round of a method.

    Parameters
    ----------
    rounds : 1 to the last committed one.
    people : everybody who was ever heard of, ascending.
    states : [people, rounds]; ``UNKNOWN`` before somebody was first heard of.
    tested : people in a round's means [rounds].
    known : of how many: who was heard of by then, or of held-out people's rounds who of them.
    """

    rounds: tuple[int, ...]
    people: tuple[str, ...]
    states: NDArray[np.int_]
    tested: NDArray[np.int_]
    known: NDArray[np.int_]

    @classmethod
    def of(cls, trace: Trace) -> Attendance:
        """Read it from what a run's database says of people."""
        rounds = tuple(range(1, trace.rounds + 1))
        people = tuple(sorted({name for grid in trace.people.values() for name in grid.columns}))
        heard = np.zeros((len(people), len(rounds)), bool)
        states = np.full(heard.shape, UNKNOWN)
        for grid in trace.people.values():
            heard |= _there(grid, people, rounds)
        heard = np.maximum.accumulate(heard, 1)
        states[heard] = NOT_ASKED
        for state, metric in _FROM.items():
            if metric in trace.people:
                states[_there(trace.people[metric], people, rounds)] = state
        tested = _there(trace.people["loss"], people, rounds)
        known = heard.sum(0)
        # In their last rounds only people are tested who were held out till then.
        if trace.config.get("split") == "unseen":
            late = slice(max(trace.wanted - int(trace.config.get("unseen-rounds", 0)), 0), None)
            known[late] = np.maximum.accumulate(tested[:, late], 1).sum(0)
        return cls(rounds, people, states, tested.sum(0), known)

    def thin(self, round: int) -> bool:
        """Whether fewer than half of the people are in a round's means: no rise, and no fall."""
        known, tested = self.count(round)
        return 0 < 2 * tested < known

    def count(self, round: int) -> tuple[int, int]:
        """Return of how many people how many are in a round's means."""
        if not 1 <= round <= len(self.rounds):
            return 0, 0
        return int(self.known[round - 1]), int(self.tested[round - 1])

    @property
    def shares(self) -> dict[str, float]:
        """Share of the rounds since somebody was first heard of in which it took part, by person.

        Who is tested took part, too.
        """
        heard = (self.states != UNKNOWN).sum(1)
        there = np.isin(self.states, (TRAINED, TESTED)).sum(1)
        each = zip(self.people, there, heard, strict=True)
        return {person: float(n / of) if of else 0.0 for person, n, of in each}

    @property
    def complete(self) -> bool:
        """Whether nobody was missing, refused or resting in any round, or left."""
        evaluated = self.tested > 0
        all_tested = bool((self.tested == self.known)[evaluated].all())
        return all_tested and not np.isin(self.states, ABSENT).any()


def _there(grid: Grid, people: tuple[str, ...], rounds: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return where a grid has a value, [people, rounds]."""
    row = {name: i for i, name in enumerate(people)}
    found = np.zeros((len(people), len(rounds)), bool)
    kept = [i for i, round in enumerate(grid.rounds) if 1 <= round <= len(rounds)]
    places = np.ix_([row[name] for name in grid.columns], [grid.rounds[i] - 1 for i in kept])
    found[places] = grid.there[kept].T
    return found


def by_attendance(found: Attendance, scores: Grid, of: TaskScores) -> str:
    """Return a sentence on people's last scores by how often they took part; "" of one group."""
    last: dict[str, float] = {}
    for round in scores.rounds:
        last |= scores.at(round)
    shares, parts = found.shares, list[str]()
    for words, least, below in _OFTEN:
        own = [last.get(person) for person, share in shares.items() if least <= share < below]
        tested = [value for value in own if value is not None]
        if own:
            mean = f"{of.title} {of.text(float(np.mean(tested)))}" if tested else "never tested"
            parts.append(f"{words}: {len(own)}, {mean}")
    return f" People by the rounds in which they took part: {'; '.join(parts)}." * (len(parts) > 1)


def attendance_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw people by rounds for each method in which somebody was not there; of the first seed."""
    for place, name in enumerate(frame.methods):
        found = Attendance.of(frame.of(name)[0])
        if found.complete:
            continue
        counts = (
            f"{state} {int((found.states == number).any(1).sum())}"
            for number, state in enumerate(STATES)
            if number in ABSENT and (found.states == number).any()
        )
        fewest = found.rounds[int(np.argmin(np.where(found.tested > 0, found.tested, 2**31)))]
        known, tested = found.count(fewest)
        last = frame.of(name)[0].people[frame.score]
        words = (
            f"{len(found.people)} people by {len(found.rounds)} rounds. People who were so in some "
            f"round: {', '.join(counts) or 'none missing, refused or resting'}. Fewest were tested "
            f"in round {fewest}: {tested} of {known}."
            f"{by_attendance(found, last, frame.of_task)} Who and when is in tables/."
        )
        title = f"{name}: who took part by round{frame.of_seed}"
        yield drawn(f"{frame.key}attendance_{place + 1}", title, words, _map(found))


def _map(found: Attendance) -> Figure:
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH, 1.1 + height(found.people)), layout="constrained")
        axes = figure.add_subplot()
        edges = (np.arange(n + 1) - 0.5 for n in (len(found.rounds), len(found.people)))
        across, down = edges
        axes.pcolormesh(
            across + 1,
            down,
            found.states,
            cmap=ListedColormap(_COLOURS),
            vmin=-0.5,
            vmax=len(STATES) - 0.5,
            rasterized=True,
        )
        axes.set_ylim(len(found.people) - 0.5, -0.5)
        name_rows(axes, found.people)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("round")
        bare(axes)
        shown = [
            number for number in range(NOT_ASKED, len(STATES)) if (found.states == number).any()
        ]
        keys = [Patch(facecolor=_COLOURS[number], label=STATES[number]) for number in shown]
        figure.legend(
            handles=keys, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5
        )
    return figure
