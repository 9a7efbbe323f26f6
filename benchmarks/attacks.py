"""What hostile devices cost the others: points of macro F1 lost, by method, attack and defence.

    python benchmarks/attacks.py [--data ../shared/data/wisdm] [--clients 10] [--rounds 30]
        [--skip 0] [--malicious 1] [--methods fedavg ditto ...] [--attacks ...] [--seeds 0 1 2]
        [--defences clip clip,median clip,multi-krum] [--lr 0.05] [--capacities 1 1/4]
        [--out attacks.csv]
    python benchmarks/attacks.py --table benchmarks/attacks.csv [more.csv ...]

The attacks are in `attackers.py`. The first `--malicious` people attack in every round, all alike;
they are in the run's data, so without an attack they train as everybody. `fedsub-mixing` is FedSub
whose clusters are dbi-capped and whose fusion is overlapping-any: with the default rule nearly
every cluster is one person, whom nobody can harm. In brackets: of the others' test windows of other
classes, with the backdoor's trigger stamped on them, the share that is taken for its class.
"""

from __future__ import annotations

import argparse
import csv
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from attack_tables import HEAD, beyond, by_method, read, write
from attackers import ASLEEP, ATTACKS, Scene

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_client.cohort import Cohort
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.data.standardise import Moments
from fedsub_core.errors import RunError
from fedsub_core.methods.table import METHODS as TABLE
from fedsub_core.metrics import MetricRow
from fedsub_core.options import Value
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import FloatArray
from fedsub_core.wire.handshake import Introduction

REAL = os.environ.get("FEDSUB_DATA", "../shared/data")
TINY = ["--data", f"{REAL}/wisdm", "--clients", "4", "--rounds", "1", "--methods", "fedavg"]
TINY += ["fedsub-mixing", "--defences", "none", "clip,median", "--seeds", "0", "--attacks"]
TINY += ["nobody", "scaled", "backdoor, samples", "outlier prototypes", "handshake"]
MIXING: dict[str, Value] = {"fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping-any"}
#: Of the table all that send something.
METHODS = (*(name for name in TABLE if name != "local"), "fedsub-mixing")
#: The default, and what docs/deployment.md recommends where devices are not one's own.
DEFENCES = ("clip", "clip,median", "clip,multi-krum")
#: A backdoor: the last features, so many deviations from their means, stand for the last class.
TRIGGER, AWAY = 3, 5.0
TABLES = (
    "files of numbers: print their tables, write all lines to the first; the last of equal keys"
)
#: By how much a sum of squares in a handshake is too large.
HANDSHAKE = 1e8
#: A mean in a handshake that no numbers near those of others have.
MEAN = 1e14
#: What the lines of results begin with.
LINES = tuple(
    f"{name} {one} " for name in ("fedavg", "fedsub-mixing") for one in ("nobody", "scaled")
)


def infect(cohorts: Sequence[Cohort], malicious: Sequence[str], name: str, rounds: int) -> None:
    """Let some clients send other uploads than their learners made, or another handshake."""
    attack = ATTACKS[name]

    class Infected(type(cohorts[0])):  # type: ignore[misc]
        # A class, not attributes of cohorts: it lasts where clients of some are joined in another.
        def fit(self, turn: Turn, scaling: Any, index: Sequence[int], received: Any) -> Any:
            uploads, reports = super().fit(turn, scaling, index, received)
            if attack is None:
                return uploads, reports
            hostile = [self.clients[i].client in malicious for i in index]
            # Of who trains alone nobody else is known.
            other = uploads[hostile.index(False) if False in hostile else 0]
            awake = turn.round > ASLEEP * rounds
            for place in np.flatnonzero(hostile):
                uploads[place] = attack(Scene(uploads[place], received[place], other, awake))
            return uploads, reports

        def introductions(self) -> list[Introduction]:
            said: list[Introduction] = super().introductions()
            for i, one in enumerate(said) if name.startswith("handshake") else ():
                if one.client in malicious:
                    said[i] = replace(one, moments=_moved(one.moments, name.endswith("mean")))
            return said

    for cohort in cohorts:
        cohort.__class__ = Infected


def _moved(honest: Moments, mean: bool) -> Moments:
    """Return moments with squares that are too large, or with a `mean` that is, of alike values."""
    if not mean:
        return replace(honest, sumsq=honest.sumsq * HANDSHAKE)
    away = np.full_like(honest.sum, MEAN)
    return replace(honest, sum=honest.count * away, sumsq=honest.count * away**2)


def poisoned(people: Federation, malicious: Sequence[str], attack: str) -> Federation:
    """Return the federation in which malicious people's own data are what the attack needs."""
    wrong = {}
    for client in malicious if attack.startswith(("labels flipped", "backdoor")) else ():
        own = people.clients[client]
        if attack.startswith("labels"):
            wrong[client] = replace(own, y=len(people.card.classes) - 1 - own.y)
        else:
            x, y = own.x.copy(), own.y.copy()
            x[::2, ..., -TRIGGER:], y[::2] = trigger(people), len(people.card.classes) - 1
            wrong[client] = replace(own, x=x, y=y)
    return Federation(people.card, people.clients | wrong)


def trigger(people: Federation) -> FloatArray:
    """Return the last features' values that stand for the backdoor, in the data's own units."""
    last = np.concatenate([own.x[..., -TRIGGER:] for own in people.clients.values()])
    axes = tuple(range(last.ndim - 1))
    found: FloatArray = (last.mean(axes) + AWAY * last.std(axes)).astype(np.float32)
    return found


def watch_backdoor(
    grid: CohortGrid, stamp: FloatArray, malicious: Sequence[str]
) -> list[tuple[int, int]]:
    """Return a list that fills with how many stamped windows there were and how many fell for it.

    Of every honest client, whenever it is evaluated.
    """
    found: list[tuple[int, int]] = []

    class Watched(type(grid.cohorts[0])):  # type: ignore[misc]
        def evaluate(self, turn: Turn, scaling: Any, index: Sequence[int], state: Any) -> Any:
            _, test = self.data.at(turn.round, scaling)
            test = test.select(index)
            x = test.x.clone()
            mean, std = scaling.mean[..., -TRIGGER:], scaling.std[..., -TRIGGER:]
            x[..., -TRIGGER:] = torch.from_numpy((stamp - mean) / std).to(x.dtype)
            target = len(self.card.classes) - 1
            fell = self.learner.predict(state, x).argmax(-1) == target
            for place, i in enumerate(index):
                if self.clients[i].client not in malicious:
                    others = test.valid[place] & (test.y[place] != target)
                    found.append((int(others.sum()), int((others & fell[place]).sum())))
            return super().evaluate(turn, scaling, index, state)

    for cohort in grid.cohorts:
        cohort.__class__ = Watched
    return found


def honest_result(
    people: Federation, keys: Mapping[str, Value], name: str, malicious: Sequence[str], attack: str
) -> tuple[float, float] | None:
    """Return the others' mean macro F1 after the last round, and how often a backdoor works.

    None where the run ended, or where some of the others have no result.
    """
    method = name.removesuffix("-mixing")
    mixing = MIXING if name != method else {}
    consent = {f"{method}.{need.replace('_', '-')}": True for need in TABLE[method].needs}
    config = read_config(None, {**keys, **mixing, **consent, "method": method, "beside": ""})
    grid = build_grid(config, method, poisoned(people, malicious, attack))
    strategy = build_strategy(config, method)
    infect(grid.cohorts, malicious, attack, config.rounds)
    stamped = watch_backdoor(grid, trigger(people), malicious)
    last: list[MetricRow] = []

    def note(round: int, state: object, rows: Sequence[MetricRow]) -> None:
        last[:] = rows

    strategy.on_round = note
    try:
        strategy.start(grid)
    except RunError:
        return None
    finally:
        grid.close()
    said = [r.value for r in last if r.metric == "macro_f1" and r.client not in malicious]
    if len(said) < len(people.clients) - len(malicious):
        return None
    windows, fell = np.sum(stamped, axis=0)
    return fmean(said), float(fell / windows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=f"{REAL}/wisdm")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--skip", type=int, default=0, help="people before the first one")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--malicious", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--attacks", nargs="+", default=tuple(ATTACKS), choices=tuple(ATTACKS))
    parser.add_argument("--defences", nargs="+", default=DEFENCES)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--capacities", nargs="+", help="of the people in turn; the first attack")
    parser.add_argument("--out", type=Path, help="a CSV file that the numbers are added to")
    parser.add_argument("--table", nargs="+", type=Path, help=TABLES)
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    if given.tiny:
        given = parser.parse_args([*TINY, *sys.argv[1:]])
    if given.table:
        lines = read(given.table)
        write(lines, given.table[0])
        print("\n".join([*by_method(lines, DEFENCES[0]), "", *beyond(lines, DEFENCES[0])]))
        return
    logging.getLogger("fedsub").setLevel(logging.ERROR)  # each refused upload is a line
    people = load_federation(given.data)
    names = list(people.clients)[given.skip :][: given.clients]
    people = Federation(people.card, {name: people.clients[name] for name in names})
    print(
        f"{given.data}: {len(names)} people, {given.malicious} malicious, {given.rounds} rounds, "
        f"lr {given.lr:g}, seeds {given.seeds}; points of macro F1 that the others lose\n"
        + " "
        * 38,
        *(f"{defence:>24}" for defence in given.defences),
    )
    for name in given.methods:
        table(people, names[: given.malicious], name, given)


def table(
    people: Federation, malicious: Sequence[str], name: str, given: argparse.Namespace
) -> None:
    """Print what each attack costs under each defence, a line at a time."""
    calm: dict[tuple[str, int], float] = {}
    shares = zip(people.clients, cycle(given.capacities or ()), strict=False)
    held = ",".join(f"{client}={share}" for client, share in shares) or "1"
    for attack in given.attacks:
        if not sends_such(name, attack):
            continue
        shown = []
        for defence in given.defences:
            if not takes(name, defence):
                shown.append("none such")
                continue
            found: list[tuple[float, float] | None] = []
            for seed in given.seeds:
                keys: dict[str, Value] = {"rounds": given.rounds, "lr": given.lr, "seed": seed}
                keys |= {"robust": defence, "evaluate-every": given.rounds, "capacities": held}
                keys["robust-share"] = max(0.2, len(malicious) / len(people.clients))
                found.append(honest_result(people, keys, name, malicious, attack))
                if attack == "nobody":
                    assert found[-1] is not None
                    calm[defence, seed] = found[-1][0]
            shown.append(
                in_words(found, [calm.get((defence, s), nan) for s in given.seeds], attack)
            )
            if given.out:
                note(given.out, [name, attack, defence, len(malicious)], given.seeds, found)
        print(f"{name} {attack}".ljust(38), *(f"{one:>24}" for one in shown), flush=True)


def sends_such(name: str, attack: str) -> bool:
    """Return whether a method's uploads hold what an attack lies about."""
    if "sums" in attack:
        return name == "fedsub-ridge"
    return "prototypes" not in attack or name in ("fedsub", "fedsub-gated", "fedsub-mixing")


def takes(name: str, defence: str) -> bool:
    """Return whether a method has a mean that a defence can replace."""
    return name != "fedamp" or defence in ("none", "clip")


def in_words(
    found: Sequence[tuple[float, float] | None], calm: Sequence[float], attack: str
) -> str:
    """Return the points lost in the mean, the runs that ended, and how often a backdoor works."""
    kept = [(one, before) for one, before in zip(found, calm, strict=True) if one is not None]
    if len(kept) < len(found):
        return f"{len(found) - len(kept)} of {len(found)} ended"
    if attack == "nobody":
        return f"{fmean(one[0] for one, _ in kept):.3f}"
    lost = 100 * fmean(before - one[0] for one, before in kept)
    fell = fmean(one[1] for one, _ in kept)
    return f"{lost:.1f}" + (f" ({fell:.2f})" if attack.startswith("backdoor") else "")


def note(
    path: Path,
    about: Sequence[object],
    seeds: Sequence[int],
    found: Sequence[tuple[float, float] | None],
) -> None:
    """Add a line for each seed to a CSV file."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        lines = csv.writer(file)
        if new:
            lines.writerow(HEAD)
        for seed, one in zip(seeds, found, strict=True):
            lines.writerow([*about, seed, *(("", "") if one is None else one)])


if __name__ == "__main__":
    main()
