"""Runs in numbers: a frame of runs x methods x seeds, read from run folders.

A page on one run has a frame with one seed; a study's has a trace for each seed. What is drawn and
compared asks the frame for its units: people of one run, or seeds where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsub_core.models.record import ModelRecord
from fedsub_core.options import Value
from fedsub_server.data_notes import DataNotes
from fedsub_server.method_summary import FEWEST, MethodSummary
from fedsub_server.task_scores import CLASSES, TARGET, TaskScores

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grid:
    """Values by round and column (people, classes or seeds).

    Parameters
    ----------
    values : float64 [rounds, columns]; a nan that is there is a model that diverged.
    there : bool [rounds, columns], what was measured.
    """

    rounds: tuple[int, ...]
    columns: tuple[str, ...]
    values: Floats
    there: NDArray[np.bool_]

    @classmethod
    def of(cls, cells: Mapping[tuple[int, str], float]) -> Grid:
        """Return the grid of values by round and column."""
        rounds = tuple(sorted({round for round, _ in cells}))
        columns = tuple(sorted({column for _, column in cells}))
        row, place = ({key: i for i, key in enumerate(keys)} for keys in (rounds, columns))
        values = np.full((len(rounds), len(columns)), np.nan)
        there = np.zeros(values.shape, bool)
        for (round, column), value in cells.items():
            values[row[round], place[column]] = value
            there[row[round], place[column]] = True
        return cls(rounds, columns, values, there)

    @cached_property
    def means(self) -> Floats:
        """Mean over what is there [rounds], nan where one of them is."""
        total = np.where(self.there, self.values, 0).sum(1)
        found: Floats = total / np.maximum(self.there.sum(1), 1)
        return found

    def at(self, round: int) -> dict[str, float]:
        """Return the values of a round by column; none where there is no such round."""
        if round not in self.rounds:
            return {}
        i = self.rounds.index(round)
        kept = zip(self.columns, self.values[i].tolist(), self.there[i], strict=True)
        return {column: value for column, value, there in kept if there}


@dataclass(frozen=True, eq=False)
class ConfusionRow:
    """How a class is predicted: people who have it, and the mean share of each predicted class."""

    people: int
    shares: Mapping[int, float]


@dataclass(frozen=True, eq=False)
class PrototypePlaces:
    """Where prototypes lie in the plane of a round.

    Parameters
    ----------
    labels : int [n], of which class each is.
    places : [n, 2].
    everybodys : bool [n], whether it is a class's mean, not a person's.
    ratio : mean distance of people's to their class's mean over that to other classes'; nan where
        there are no two classes.
    """

    labels: NDArray[np.int64]
    places: Floats
    everybodys: NDArray[np.bool_]
    ratio: float


@dataclass(frozen=True, eq=False)
class Trace:
    """What one method left in one run.

    Parameters
    ----------
    fold : what it tests, of several runs of the seed; "" of one alone.
    rounds, wanted : the last committed one, and how many the run was given.
    summary : as ``summary.json`` has it.
    people : metric -> a grid over people, of rounds that were evaluated or in which they report.
    f1 : a grid over people for each class, F1.
    clusters : how many each class has, a grid over classes.
    members : of each class, a grid over people: in which of its clusters they are. Groups that are
        no class's are in `people` under ``group``.
    bytes : a client's bytes in a round on average, by metric.
    prototypes : by round, the first and those evaluated, of methods that average prototypes.
    confusion : of the last evaluated round, by true class; empty where it was not counted.
    config, version : of the run's start: flat keys; fedsub's version and its code's digest.
    model : the resolved one; None where the run's release kept none.
    """

    run: str
    seed: int
    method: str
    rounds: int
    wanted: int
    summary: MethodSummary
    people: Mapping[str, Grid]
    f1: Mapping[int, Grid]
    clusters: Grid
    members: Mapping[int, Grid]
    bytes: Mapping[str, float]
    config: Mapping[str, Value]
    version: str
    confusion: Mapping[int, ConfusionRow] = field(default_factory=dict)
    prototypes: Mapping[int, PrototypePlaces] = field(default_factory=dict)
    model: ModelRecord | None = None
    fold: str = ""

    @property
    def repeat(self) -> str:
        """The run's seed, and its fold where it has one."""
        return f"{self.seed}, fold {self.fold}" if self.fold else str(self.seed)

    @property
    def finished(self) -> bool:
        """Whether all rounds were done."""
        return self.rounds >= self.wanted


@dataclass(frozen=True, eq=False)
class Frame:
    """Traces, methods in the order of the configuration.

    Parameters
    ----------
    traces : at least one; a method and seed at most once.
    classes : names that were agreed on in the handshake; empty before its first round ended.
    missing : methods of the configuration that have not begun.
    key : what its figures' names begin with, where a page has several frames.
    notes : what the run found in its data; empty where it has kept none.
    explained : what the classes are in words; "" where their names say it.
    """

    traces: Sequence[Trace]
    classes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    key: str = ""
    notes: DataNotes = field(default_factory=DataNotes)
    explained: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        """Each method once."""
        return tuple(dict.fromkeys(trace.method for trace in self.traces))

    @property
    def of_seed(self) -> str:
        """What a title says where of several seeds the first is shown."""
        return f", seed {self.seeds[0]}" if len(self.seeds) > 1 else ""

    @property
    def seeds(self) -> tuple[str, ...]:
        """Ascending; with folds each seed's folds."""
        return tuple(dict.fromkeys(one.repeat for one in sorted(self.traces, key=_in_order)))

    @property
    def of_task(self) -> TaskScores:
        """The scores of what is tested: of a target errors."""
        errors = any(trace.summary.mae is not None for trace in self.traces)
        return TARGET if errors else CLASSES

    @property
    def score(self) -> str:
        """The metric that people are compared by."""
        return self.of_task.name

    @property
    def scores(self) -> tuple[str, ...]:
        """The metrics of tables by capacity."""
        return ("mae", "r2", "loss") if self.score == "mae" else ("macro_f1", "accuracy", "loss")

    @property
    def compared(self) -> str:
        """What is compared, in words: more of it is better."""
        return "negative " * (self.of_task.sign < 0) + self.of_task.title

    @property
    def unit(self) -> str:
        """What intervals are over."""
        if len(self.seeds) == 1:
            return "people"
        return "seeds and folds" if any(trace.fold for trace in self.traces) else "seeds"

    @property
    def fewest(self) -> int:
        """Of how many of these an interval is given at least."""
        return FEWEST if len(self.seeds) == 1 else 2

    @property
    def finished(self) -> bool:
        """Whether every method did all its rounds."""
        return not self.missing and all(trace.finished for trace in self.traces)

    def of(self, method: str) -> list[Trace]:
        """Return a method's traces by seed."""
        mine = (trace for trace in self.traces if trace.method == method)
        return sorted(mine, key=_in_order)

    def units(self, method: str, metric: str) -> Grid:
        """Return a metric by round and unit: people, or seeds (each a mean over its people)."""
        traces = self.of(method)
        if len(self.seeds) == 1:
            return traces[0].people[metric]
        return Grid.of(
            {
                (round, trace.repeat): float(mean)
                for trace in traces
                for grid in (trace.people[metric],)
                for round, mean in zip(grid.rounds, grid.means, strict=True)
            }
        )

    def class_name(self, label: int) -> str:
        """Return a class's name, or its number where none was agreed on."""
        return self.classes[label] if label < len(self.classes) else f"class {label}"


def _in_order(trace: Trace) -> tuple[int, int, str]:
    # Fold 10/12 comes after fold 9/12.
    return trace.seed, len(trace.fold), trace.fold
