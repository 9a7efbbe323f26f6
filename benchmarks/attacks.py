"""What malicious devices cost the others: mean macro F1 of the honest, by attack and defence.

    python benchmarks/attacks.py [--data ../shared/data/wisdm] [--clients 10] [--rounds 30]
        [--malicious 1] [--methods fedavg fedrep ditto fedsub fedsub-mixing]
        [--defences none clip clip,trimmed-mean median multi-krum] [--lr 0.005]

The first `--malicious` people attack in every round, all alike; they are in the run's data, so
without an attack they train as everybody. `fedsub-mixing` is FedSub whose clusters are dbi-capped
and whose fusion is overlapping-any: with the default rule nearly every cluster is one person, whom
nobody can harm.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_client.cohort import Cohort
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.errors import RunError
from fedsub_core.methods.fedsub import PROTOTYPES, SCORE
from fedsub_core.metrics import MetricRow
from fedsub_core.options import Value
from fedsub_core.wire.bundles import Bits, Bundle, Dense, FloatArray, Part, Rows

REAL = os.environ.get("FEDSUB_DATA", "../shared/data")
TINY = ["--data", f"{REAL}/wisdm", "--clients", "4", "--rounds", "1", "--methods", "fedavg"]
TINY += ["fedsub-mixing", "--defences", "none", "clip"]
MIXING: dict[str, Value] = {"fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping-any"}
METHODS = ("fedavg", "fedrep", "ditto", "fedsub", "fedsub-mixing")
DEFENCES = ("none", "clip", "clip,trimmed-mean", "median", "multi-krum")
#: The largest number that passes the codec's check, and the most samples that do.
LARGE, MANY = 1e5, 2**48 - 1
STREAM = np.random.default_rng(0)

#: Of an upload and of what its client received: what is sent instead.
Attack = Callable[[Bundle, Bundle], Bundle]


def changed(upload: Bundle, change: Callable[[str, FloatArray], Any]) -> Bundle:
    """Return an upload with other numbers in its models, not in prototypes and scores."""
    tensors: dict[str, Part] = {}
    for name, part in upload.tensors.items():
        if isinstance(part, Bits) or name in (PROTOTYPES, SCORE):
            tensors[name] = part
        else:
            tensors[name] = replace(part, values=change(name, part.values).astype(np.float32))
    return replace(upload, tensors=tensors)


def scaled(upload: Bundle, received: Bundle) -> Bundle:
    return changed(upload, lambda name, values: np.clip(values * LARGE, -1e6, 1e6))


def noisy(upload: Bundle, received: Bundle) -> Bundle:
    return changed(upload, lambda name, values: values + STREAM.normal(size=values.shape))


def flipped(upload: Bundle, received: Bundle) -> Bundle:
    """Go three times the way back; rows of a subnetwork, whose start nobody sent, are negated."""

    def change(name: str, values: FloatArray) -> FloatArray:
        before = received.tensors.get(name)
        if isinstance(before, Dense):
            return before.values - 3 * (values - before.values)
        return -values

    return changed(upload, change)


def heavy(upload: Bundle, received: Bundle) -> Bundle:
    return replace(upload, examples=MANY)


def famous(upload: Bundle, received: Bundle) -> Bundle:
    """Scale, and say that one recognises everything: a score above 1 is refused."""
    upload = scaled(upload, received)
    score = upload.tensors.get(SCORE)
    if isinstance(score, Dense):
        best = Dense((score.values > 0).astype(np.float32))
        upload = replace(upload, tensors={**upload.tensors, SCORE: best})
    return upload


def outlying(upload: Bundle, received: Bundle) -> Bundle:
    """Put prototypes where nobody is."""
    found = upload.tensors.get(PROTOTYPES)
    if isinstance(found, Rows):
        away = replace(found, values=found.values * np.float32(1000))
        upload = replace(upload, tensors={**upload.tensors, PROTOTYPES: away})
    return upload


ATTACKS: Mapping[str, Attack | None] = {
    "nobody": None,
    "scaled": scaled,
    "sign-flipped": flipped,
    "noise": noisy,
    "label-flipped": None,
    "examples": heavy,
    "score": famous,
    "outlier prototypes": outlying,
}
#: What the lines of results begin with.
LINES = tuple(
    f"{name} {one} " for name in ("fedavg", "fedsub-mixing") for one in ("nobody", "scaled")
)


def infect(grid: CohortGrid, malicious: Sequence[str], attack: Attack) -> None:
    """Let some clients send other uploads than their learners made."""

    def spoil(cohort: Cohort) -> None:
        honest = cohort.fit

        def fit(turn: Any, scaling: Any, index: Sequence[int], received: Sequence[Bundle]) -> Any:
            uploads, reports = honest(turn, scaling, index, received)
            for place, i in enumerate(index):
                if cohort.clients[i].client in malicious:
                    uploads[place] = attack(uploads[place], received[place])
            return uploads, reports

        cohort.fit = fit  # type: ignore[method-assign]

    for cohort in grid.cohorts:
        spoil(cohort)


def honest_f1(
    people: Federation, keys: Mapping[str, Value], name: str, malicious: Sequence[str], attack: str
) -> float:
    """Return the mean macro F1 of the others after the last round; NaN where some dropped out."""
    if attack == "label-flipped":
        top = len(people.card.classes) - 1
        wrong = {c: replace(people.clients[c], y=top - people.clients[c].y) for c in malicious}
        people = Federation(people.card, people.clients | wrong)
    method = name.removesuffix("-mixing")
    mixing = MIXING if name != method else {}
    config = read_config(None, {**keys, **mixing, "method": method, "beside": ""})
    grid, strategy = build_grid(config, method, people), build_strategy(config, method)
    chosen = ATTACKS[attack]
    if chosen is not None:
        infect(grid, malicious, chosen)
    last: list[MetricRow] = []

    def note(round: int, state: object, rows: Sequence[MetricRow]) -> None:
        last[:] = rows

    strategy.on_round = note
    try:
        strategy.start(grid)
    except RunError:
        return float("nan")
    finally:
        grid.close()
    said = [r.value for r in last if r.metric == "macro_f1" and r.client not in malicious]
    return fmean(said) if len(said) == len(people.clients) - len(malicious) else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=f"{REAL}/wisdm")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--malicious", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--defences", nargs="+", default=DEFENCES)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    if given.tiny:
        given = parser.parse_args([*TINY, *sys.argv[1:]])
    people = load_federation(given.data)
    names = list(people.clients)[: given.clients]
    people = Federation(people.card, {name: people.clients[name] for name in names})
    malicious = names[: given.malicious]
    print(
        f"{given.data}: {len(names)} people, {given.malicious} malicious, {given.rounds} rounds, "
        f"lr {given.lr:g}; mean macro F1 of the others\n" + " " * 34,
        *(f"{defence:>18}" for defence in given.defences),
    )
    for name in given.methods:
        for attack in ATTACKS:
            if "prototypes" in attack and not name.startswith("fedsub"):
                found = ["-"] * len(given.defences)
            else:
                found = []
                for defence in given.defences:
                    keys: dict[str, Value] = {"rounds": given.rounds, "lr": given.lr}
                    keys |= {"robust": defence, "evaluate-every": given.rounds, "quorum": 0.0}
                    found.append(f"{honest_f1(people, keys, name, malicious, attack):.3f}")
            print(f"{name} {attack}".ljust(34), *(f"{one:>18}" for one in found), flush=True)


if __name__ == "__main__":
    main()
