"""Ending a method's rounds early: by patience on validation parts, or by a user's function.

A method that ended so has a file beside its database, and is not gone on with.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from fedsub_core.config.settings import RoundSettings
from fedsub_core.errors import RunError, cut
from fedsub_core.files import read_table, write_whole
from fedsub_core.metric_names import VALIDATION, VALIDATION_ERROR
from fedsub_core.metrics import MetricRow
from fedsub_core.models.builders import builder_at

ENDED_FILE = "ended.json"
#: By less than this the mean validation macro F1 has not risen; an error, a share of what it was.
LEAST_RISE = 0.001
TAKES = "(done) with done.method, .round, .rounds, .means and .people"


class EndedEarly(Exception):
    """A method's rounds ended before the last one."""


@dataclass(frozen=True)
class RoundDone:
    """A finished round, as ``on_round`` gets it.

    Parameters
    ----------
    means : of each of the round's metrics over people, by name; of a round without an evaluation
        those of training. Whoever ends a run by what was reached on test samples chooses by them;
        ``validation_macro_f1``, of a target ``validation_mae``, is there with
        ``best_by="validation"``.
    people : the same numbers of each person, by id.
    """

    method: str
    round: int
    rounds: int
    means: Mapping[str, float]
    people: Mapping[str, Mapping[str, float]]


@dataclass
class Ending:
    """Decides after each round of a method whether it is the last.

    Parameters
    ----------
    folder : the method's, where it is kept that it ended.
    before : metrics of earlier processes.
    """

    settings: RoundSettings
    method: str
    folder: Path
    before: Iterable[MetricRow] = ()
    #: By round, everybody's validation score.
    scores: dict[int, dict[str, float]] = field(default_factory=dict)
    function: Callable[[RoundDone], Any] | None = None
    of_error: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.settings.patience:
            self._note(self.before)
        if self.settings.on_round:
            self.function = builder_at(self.settings.on_round, "on-round", TAKES)

    @property
    def rounds(self) -> int:
        """The rounds to be run: up to where the method ended, or 0, which is all."""
        return int(read_ended(self.folder).get("round", 0))

    def after(self, round: int, rows: Sequence[MetricRow]) -> bool:
        """Return whether a round is the last, and keep it.

        Raises RunError if the user's function fails; it names method and round.
        """
        if not (self.function or self.settings.patience):
            return False
        self._note(rows)
        why = self._function_says(round, rows) or self._patience_says(round)
        if why and round < self.settings.rounds:
            text = json.dumps({"round": round, "of": self.settings.rounds, "why": why}) + "\n"
            write_whole(self.folder / ENDED_FILE, text.encode())
            return True
        return False

    def _note(self, rows: Iterable[MetricRow]) -> None:
        for row in rows:
            if row.metric in (VALIDATION, VALIDATION_ERROR):
                self.scores.setdefault(row.round, {})[row.client] = row.value
                self.of_error = row.metric == VALIDATION_ERROR

    def _patience_says(self, round: int) -> str:
        patience = self.settings.patience
        long_ago = [number for number in self.scores if number <= round - patience]
        if not (patience and long_ago and round in self.scores):
            return ""
        theirs, earlier = self.scores[round], self.scores[max(long_ago)]
        # Whose model diverged, or who was not asked in both rounds, says nothing of the others.
        both = [c for c in theirs if math.isfinite(theirs[c] + earlier.get(c, math.nan))]
        if not both:
            return ""
        now, before = (fmean(of[client] for client in both) for of in (theirs, earlier))
        name, sign, least = "macro F1", 1, LEAST_RISE
        if self.of_error:
            name, sign, least = "MAE", -1, LEAST_RISE * before
        if sign * (now - before) >= least:
            return ""
        return f"in {patience} rounds the validation {name} went from {before:.4g} to {now:.4g}"

    def _function_says(self, round: int, rows: Sequence[MetricRow]) -> str:
        if self.function is None:
            return ""
        people = defaultdict[str, dict[str, float]](dict)
        for row in rows:
            if row.label is None and row.client:
                people[row.client][row.metric] = row.value
        names = dict.fromkeys(name for one in people.values() for name in one)
        means = {n: fmean(one[n] for one in people.values() if n in one) for n in names}
        done = RoundDone(self.method, round, self.settings.rounds, means, dict(people))
        try:
            said = self.function(done)
        except Exception as error:  # whatever somebody's function raises
            raise RunError(
                f"on-round {self.settings.on_round}: {self.method}, round {round}: got "
                f"{type(error).__name__}: {cut(error)}; expected a function of {TAKES}. The run "
                "goes on from its last checkpoint with --resume"
            ) from error
        return f"{self.settings.on_round} ended it" if said is True else ""


def read_ended(folder: Path) -> dict[str, Any]:
    """Return when a method ended early, and why; empty where it did not."""
    return read_table(folder / ENDED_FILE)


def ended_in_words(run: Path) -> str:
    """Return a sentence on the methods of a run's folder that ended early; "" without any."""
    ended = {path.parent.name: read_ended(path.parent) for path in run.glob(f"*/{ENDED_FILE}")}
    each = [
        f"{name} after round {one.get('round')} of {one.get('of')} ({one.get('why')})"
        for name, one in sorted(ended.items())
    ]
    return f"Ended early: {'; '.join(each)}." if each else ""
