"""Whether the hour of day tells who answers: a try that was not kept, beside shares of all answers.

Days of a fleet whose people are drawn by attendance. In the try, a person's share of answers in the
hour in which a round begins, and half of those in the hours beside it, is smoothed to the share of
all its answers. The person's own zone makes no difference: counts are the person's own.
"""

import logging
import tempfile
from argparse import Namespace
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

from fleet_days import results_of  # a script beside this one, as the next
from script import REAL, Known, put_rows, read_arguments

from fedsub.fleet.grid import FleetGrid
from fedsub.fleet.habits import HOUR
from fedsub.fleet.simulate import FleetAsked, simulate_fleet
from fedsub_core.config.run_config import read_config
from strategies.rounds.attendance import Attendance
from strategies.strategy import PersonalizedStrategy

TINY = ["--people", "6", "--days", "1", "--data", "watch"]
LINES = ("overall", "by hour")
#: When rounds begin: hours between two, and for how many nobody is asked again after an upload.
ROUNDS: dict[str, tuple[float, float]] = {"at once": (0.0, 12.0), "every 8 hours": (8.0, 0.0)}
#: Of how many answers the share of all counts.
SMOOTHED = 2.0


class Answers:
    """Counts of questions and answers by person and hour."""

    def __init__(self, by_hour: bool) -> None:
        self.by_hour, self.hour = by_hour, 0
        self.asked, self.answered = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        self._note, self._likely = Attendance.note, Attendance.likely
        self._begin = PersonalizedStrategy.run_round

    def begin(self, strategy: PersonalizedStrategy, grid: FleetGrid, *given: Any) -> Any:
        """Begin a round, at an hour."""
        self.hour = int(grid.clock.now // HOUR) % 24
        return self._begin(strategy, grid, *given)

    def note(self, own: Attendance, round: int, there: Any, asked: Any, answered: Any) -> None:
        """Note a round's questions and answers."""
        self.asked.update((client, self.hour) for client in asked)
        self.answered.update((client, self.hour) for client in {*answered} & {*asked})
        self._note(own, round, there, asked, answered)

    def likely(self, own: Attendance, client: str) -> float:
        """Return the share of questions that a client is expected to answer now."""
        overall = self._likely(own, client)
        if not self.by_hour:
            return overall
        hours = [(client, (self.hour + beside) % 24) for beside in (-1, 0, 0, 1)]
        asked, answered = (sum(of[at] for at in hours) / 2 for of in (self.asked, self.answered))
        return (answered + SMOOTHED * overall) / (asked + SMOOTHED)


def measured(rounds: str, by_hour: bool, given: Namespace, seed: int) -> dict[str, Any]:
    """Return the results of a fleet's days."""
    every, pause = ROUNDS[rounds]
    few = {"clients-per-round": max(given.people // 5, 1), "ask": 1.3, "draw": "attendance"}
    keys = few | {"late-hours": 6, "pause-hours": pause, "quorum": 0, "round-timeout": 1800}
    keys |= {"method": "fedsub-ridge", "beside": "", "data": given.data, "rounds": 100_000}
    answers = Answers(by_hour)
    with (
        tempfile.TemporaryDirectory() as out,
        patch.object(Attendance, "note", lambda own, *told: answers.note(own, *told)),
        patch.object(Attendance, "likely", lambda own, client: answers.likely(own, client)),
        patch.object(
            PersonalizedStrategy, "run_round", lambda own, *told: answers.begin(own, *told)
        ),
    ):
        config = read_config(None, {**keys, "evaluate-every": 1, "seed": seed, "out": out})
        found = simulate_fleet(config, FleetAsked(given.people, given.days, every, 60)).days
    in_time = answers.answered.total() / max(answers.asked.total(), 1)
    return {**results_of(found, given.days), "answered in time": in_time}


def main() -> None:
    given = read_arguments(
        TINY,
        people=30,
        days=10,
        data=f"{REAL}/wisdm-stats",
        seeds=2,
        rounds=Known(ROUNDS),
        out=Path,
    )
    logging.disable(logging.WARNING)
    for rounds in given.rounds:
        for share in LINES:
            runs = [measured(rounds, share == "by hour", given, s) for s in range(given.seeds)]
            means = {
                n: fmean(r[n] for r in runs if r[n] != "") for n in runs[0] if runs[0][n] != ""
            }
            print(
                f"{share:10} {rounds:14}", *(f"{n} {v:.3f}" for n, v in means.items()), flush=True
            )
            row = {"share": share, "rounds": rounds} | {n: f"{v:.3f}" for n, v in means.items()}
            put_rows(given.out, [row], ["share", "rounds"])


if __name__ == "__main__":
    main()
