"""Days of a fleet in virtual time: plain rounds, over-selection, late uploads, no rounds.

    python benchmarks/fleet_days.py [--people 60] [--days 30] [--clients-per-round 10]
        [--data FOLDER] [--method fedavg] [--seeds 1] [--out benchmarks/results/fleet-days.csv]

`fedsub deploy simulate` with the same people, whose devices train at most twice a day, in each way
of asking them. A round begins as soon as clients-per-round people are there.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from script import REAL, parsed, put_rows, today  # a script beside this one

from fedsub.fleet.simulate import FleetAsked, simulate_fleet
from fedsub_core.config.run_config import read_config

TINY = ["--people", "6", "--days", "1", "--clients-per-round", "2", "--data", "watch"]
#: What the lines of results begin with.
LINES = ("plain rounds", "no rounds")
WAYS: dict[str, dict[str, Any]] = {
    "plain rounds": {},
    "over-selection": {"ask": 1.3},
    "over-selection, late uploads": {"ask": 1.3, "late-hours": 6},
    "drawn by attendance": {"ask": 1.3, "late-hours": 6, "draw": "attendance"},
    "no rounds": {"ask": 1.3, "late-hours": 6, "asynchronous": True},
}


def measured(way: str, given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return the results of a fleet's days, whose people are asked in one way."""
    few = given.clients_per_round
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
        days, kinds = found.by_day(given.days), found.by_kind(given.days)
    target = found.hours_to(given.target)
    return {
        "way": way,
        "rounds a day": fmean(day["rounds"] for day in days),
        "uploads a day": fmean(day["uploads"] for day in days),
        "hours to target": float("inf") if target is None else target,
        "never served": sum(kind["never_served"] for kind in kinds),
        "F1": days[-1]["f1"],
        "F1 seldom there": days[-1]["f1_seldom"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=60)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--clients-per-round", type=int, default=10)
    parser.add_argument("--evaluate-every", type=int, default=1)
    parser.add_argument("--data", default=f"{REAL}/wisdm-stats")
    parser.add_argument("--method", default="fedsub-ridge")
    parser.add_argument("--target", type=float, default=0.8, help="F1, the mean over all people")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--out", type=Path, help="the file of results")
    given = parsed(parser, TINY)
    logging.disable(logging.WARNING)
    for way in given.ways:
        runs = [measured(way, given, seed) for seed in range(given.seeds)]
        names = [name for name in runs[0] if name != "way"]
        means = {n: fmean(run[n] for run in runs if run[n] != "") for n in names}
        print(f"{way:30}", *(f"{name} {value:.3f}" for name, value in means.items()), flush=True)
        if given.out is not None:
            about = {"method": given.method, "people": given.people, "days": given.days}
            about["seeds"] = given.seeds
            row = {"way": way, **about, **{n: f"{v:.3f}" for n, v in means.items()}}
            put_rows(given.out, [row | {"written": today()}], ["way", "method"])


if __name__ == "__main__":
    main()
