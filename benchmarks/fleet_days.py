"""Days of a fleet in virtual time: plain rounds, over-selection, late uploads, no rounds.

`fedsub deploy simulate` with the same people, whose devices train at most twice a day, in each way
of asking them. A round begins as soon as clients-per-round people are there.
"""

import logging
import tempfile
from argparse import Namespace
from pathlib import Path
from statistics import fmean
from typing import Any

from script import REAL, Known, put_rows, read_arguments  # a script beside this one

from fedsub.fleet.days import Days
from fedsub.fleet.simulate import FleetAsked, simulate_fleet
from fedsub_core.config.run_config import read_config

TINY = ["--people", "6", "--days", "1", "--clients-per-round", "2", "--data", "watch"]
LINES = ("plain rounds", "no rounds")
WAYS: dict[str, dict[str, Any]] = {
    "plain rounds": {},
    "over-selection": {"ask": 1.3},
    "over-selection, late uploads": {"ask": 1.3, "late-hours": 6},
    "drawn by attendance": {"ask": 1.3, "late-hours": 6, "draw": "attendance"},
    "no rounds": {"ask": 1.3, "late-hours": 6, "asynchronous": True},
}


def measured(way: str, given: Namespace, seed: int) -> dict[str, Any]:
    """Return the results of a fleet's days, whose people are asked in one way."""
    few = given.clients_per_round or max(given.people // 5, 1)
    keys = {
        "method": given.method,
        "beside": "",
        "data": given.data,
        "rounds": 100_000,
        "clients-per-round": few,
        "pause-hours": 12,
        "quorum": 0,
        "round-timeout": 1800,
        "evaluate-every": given.evaluate_every,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as out:
        config = read_config(None, {**keys, "out": out, **WAYS[way]})
        found = simulate_fleet(config, FleetAsked(given.people, given.days, 0.0, 60)).days
    target = found.hours_to(given.target)
    reached = results_of(found, given.days)
    return {"way": way, **reached, "hours to target": float("inf") if target is None else target}


def results_of(found: Days, days: int) -> dict[str, Any]:
    """Return rounds and uploads a day, people never served, and the last day's F1 of a fleet."""
    each, kinds = found.by_day(days), found.by_kind(days)
    return {
        "rounds a day": fmean(day["rounds"] for day in each),
        "uploads a day": fmean(day["uploads"] for day in each),
        "never served": sum(kind["never_served"] for kind in kinds),
        "F1": each[-1]["f1"],
        "F1 seldom there": each[-1]["f1_seldom"],
    }


def main() -> None:
    given = read_arguments(
        TINY,
        people=30,
        days=30,
        clients_per_round=(0, "people asked for in a round; 0: a fifth of all"),
        evaluate_every=1,
        data=f"{REAL}/wisdm-stats",
        method="fedsub-ridge",
        target=(0.8, "F1, the mean over all people"),
        seeds=1,
        ways=Known(WAYS),
        out=Path,
    )
    logging.disable(logging.WARNING)
    for way in given.ways:
        runs = [measured(way, given, seed) for seed in range(given.seeds)]
        names = [name for name in runs[0] if name != "way"]
        means = {n: fmean(run[n] for run in runs if run[n] != "") for n in names}
        print(f"{way:30}", *(f"{name} {value:.3f}" for name, value in means.items()), flush=True)
        about = {"method": given.method, "people": given.people, "days": given.days}
        about["seeds"] = given.seeds
        row = {"way": way, **about, **{n: f"{v:.3f}" for n, v in means.items()}}
        put_rows(given.out, [row], ["way", "method", "people", "days"])


if __name__ == "__main__":
    main()
