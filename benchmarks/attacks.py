"""What malicious devices cost the others: mean macro F1 of the honest, by attack and defence.

    python benchmarks/attacks.py [--data ../shared/data/wisdm] [--clients 10] [--rounds 30]
        [--malicious 1 2 3] [--methods fedavg fedrep ditto fedsub fedsub-mixing]
        [--defences none clip clip,trimmed-mean clip,median clip,multi-krum] [--lr 0.005]

The first `--malicious` people attack in every round, all alike and with one another; they are in
the run's data, so without an attack they train as everybody. `fedsub-mixing` is FedSub whose
clusters are dbi-capped and whose fusion is overlapping-any: with the default rule nearly every
cluster is one person, whom nobody can harm. In brackets: of the others' test windows of other
classes, with the backdoor's trigger stamped on them, the share that is taken for its class.
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
import torch

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
TINY += ["fedsub-mixing", "--defences", "none", "clip,median", "--malicious", "1"]
MIXING: dict[str, Value] = {"fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping-any"}
METHODS = ("fedavg", "fedrep", "ditto", "fedsub", "fedsub-mixing")
DEFENCES = ("none", "clip", "clip,trimmed-mean", "clip,median", "clip,multi-krum")
#: The largest number that passes the codec's check, and the most samples that do.
LARGE, MANY = 1e5, 2**48 - 1
STREAM = np.random.default_rng(0)
#: A backdoor: the last features, so many deviations from their means, stand for the last class;
#: and by how much the update that learnt it grows.
TRIGGER, AWAY, BOOST = 3, 5.0, 10.0

#: Of an upload, of what its client received and of an honest upload: what is sent instead.
Attack = Callable[[Bundle, Bundle, Bundle], Bundle]


def changed(upload: Bundle, change: Callable[[str, FloatArray], Any]) -> Bundle:
    """Return an upload with other numbers in its models, not in prototypes and scores."""
    tensors: dict[str, Part] = {}
    for name, part in upload.tensors.items():
        if isinstance(part, Bits) or name in (PROTOTYPES, SCORE):
            tensors[name] = part
        else:
            tensors[name] = replace(part, values=change(name, part.values).astype(np.float32))
    return replace(upload, tensors=tensors)


def scaled(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
    return changed(upload, lambda name, values: np.clip(values * LARGE, -1e6, 1e6))


def noisy(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
    return changed(upload, lambda name, values: values + STREAM.normal(size=values.shape))


def flipped(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
    """Go three times the way back; rows of a subnetwork, whose start nobody sent, are negated."""
    return boosted(upload, received, -3.0, -1.0)


def boosted(upload: Bundle, received: Bundle, update: float, rows: float) -> Bundle:
    """Multiply a model's update, or a subnetwork's rows, whose start nobody sent."""

    def change(name: str, values: FloatArray) -> FloatArray:
        before = received.tensors.get(name)
        if isinstance(before, Dense):
            return before.values + update * (values - before.values)
        return rows * values

    return changed(upload, change)


def backdoored(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
    """Let what was learnt from stamped windows outweigh the others (Bagdasaryan et al. 2020)."""
    return _best(boosted(upload, received, BOOST, 2.0))


def copied(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
    """Stand where an honest client stands, with the best score and its rows negated."""
    return _best(flipped(honest, received, honest))


def heavy(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
    return replace(upload, examples=MANY)


def famous(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
    """Scale, and say that one recognises everything: a score above 1 is refused."""
    return _best(scaled(upload, received, honest))


def _best(upload: Bundle) -> Bundle:
    score = upload.tensors.get(SCORE)
    if isinstance(score, Dense):
        best = Dense((score.values > 0).astype(np.float32))
        upload = replace(upload, tensors={**upload.tensors, SCORE: best})
    return upload


def outlying(upload: Bundle, received: Bundle, honest: Bundle) -> Bundle:
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
    "copied prototypes": copied,
    "backdoor": backdoored,
}
#: What the lines of results begin with.
LINES = tuple(
    f"{name} {one} " for name in ("fedavg", "fedsub-mixing") for one in ("nobody", "scaled")
)


def infect(grid: CohortGrid, malicious: Sequence[str], attack: Attack) -> None:
    """Let some clients send other uploads than their learners made."""

    def is_honest(cohort: Cohort, i: int) -> bool:
        return cohort.clients[i].client not in malicious

    def spoil(cohort: Cohort) -> None:
        train = cohort.fit

        def fit(turn: Any, scaling: Any, index: Sequence[int], received: Sequence[Bundle]) -> Any:
            uploads, reports = train(turn, scaling, index, received)
            for place, i in enumerate(index):
                if cohort.clients[i].client in malicious:
                    honest = next(p for p, j in enumerate(index) if is_honest(cohort, j))
                    uploads[place] = attack(uploads[place], received[place], uploads[honest])
            return uploads, reports

        cohort.fit = fit  # type: ignore[method-assign]

    for cohort in grid.cohorts:
        spoil(cohort)


def poisoned(people: Federation, malicious: Sequence[str], attack: str) -> Federation:
    """Return the federation in which malicious people's own data are what the attack needs."""
    wrong = {}
    for client in malicious if attack in ("label-flipped", "backdoor") else ():
        own = people.clients[client]
        if attack == "label-flipped":
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

    def watch(cohort: Cohort) -> None:
        honest = cohort.evaluate

        def evaluate(turn: Any, scaling: Any, index: Sequence[int], state: Any) -> Any:
            _, test = cohort.data.at(turn.round, scaling)
            test = test.select(index)
            x = test.x.clone()
            mean, std = scaling.mean[..., -TRIGGER:], scaling.std[..., -TRIGGER:]
            x[..., -TRIGGER:] = torch.from_numpy((stamp - mean) / std).to(x.dtype)
            target = len(cohort.card.classes) - 1
            fell = cohort.learner.predict(state, x).argmax(-1) == target
            for place, i in enumerate(index):
                if cohort.clients[i].client not in malicious:
                    others = test.valid[place] & (test.y[place] != target)
                    found.append((int(others.sum()), int((others & fell[place]).sum())))
            return honest(turn, scaling, index, state)

        cohort.evaluate = evaluate  # type: ignore[method-assign]

    for cohort in grid.cohorts:
        watch(cohort)
    return found


def honest_result(
    people: Federation, keys: Mapping[str, Value], name: str, malicious: Sequence[str], attack: str
) -> str:
    """Return the others' mean macro F1 after the last round, "-" where some dropped out.

    Under the backdoor, and without an attack, also how often it works.
    """
    method = name.removesuffix("-mixing")
    mixing = MIXING if name != method else {}
    config = read_config(None, {**keys, **mixing, "method": method, "beside": ""})
    grid = build_grid(config, method, poisoned(people, malicious, attack))
    strategy = build_strategy(config, method)
    chosen = ATTACKS[attack]
    if chosen is not None:
        infect(grid, malicious, chosen)
    stamped = watch_backdoor(grid, trigger(people), malicious)
    last: list[MetricRow] = []

    def note(round: int, state: object, rows: Sequence[MetricRow]) -> None:
        last[:] = rows

    strategy.on_round = note
    try:
        strategy.start(grid)
    except RunError:
        return "-"
    finally:
        grid.close()
    said = [r.value for r in last if r.metric == "macro_f1" and r.client not in malicious]
    if len(said) < len(people.clients) - len(malicious):
        return "-"
    windows, fell = np.sum(stamped, axis=0)
    shown = f" ({fell / windows:.2f})" if attack in ("backdoor", "nobody") else ""
    return f"{fmean(said):.3f}{shown}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=f"{REAL}/wisdm")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--malicious", nargs="+", type=int, default=(1, 2, 3))
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--attacks", nargs="+", default=tuple(ATTACKS), choices=tuple(ATTACKS))
    parser.add_argument("--defences", nargs="+", default=DEFENCES)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    if given.tiny:
        given = parser.parse_args([*TINY, *sys.argv[1:]])
    people = load_federation(given.data)
    names = list(people.clients)[: given.clients]
    people = Federation(people.card, {name: people.clients[name] for name in names})
    for count in given.malicious:
        table(people, names[:count], given)


def table(people: Federation, malicious: Sequence[str], given: argparse.Namespace) -> None:
    """Print the results of every method and attack, a column for each defence."""
    print(
        f"{given.data}: {len(people.clients)} people, {len(malicious)} malicious, {given.rounds} "
        f"rounds, lr {given.lr:g}; mean macro F1 of the others\n" + " " * 34,
        *(f"{defence:>18}" for defence in given.defences),
    )
    for name in given.methods:
        for attack in given.attacks:
            if "prototypes" in attack and not name.startswith("fedsub"):
                continue
            found = []
            for defence in given.defences:
                keys: dict[str, Value] = {"rounds": given.rounds, "lr": given.lr, "quorum": 0.0}
                keys |= {"robust": defence, "evaluate-every": given.rounds}
                keys["robust-share"] = max(0.2, len(malicious) / len(people.clients))
                found.append(honest_result(people, keys, name, malicious, attack))
            print(f"{name} {attack}".ljust(34), *(f"{one:>18}" for one in found), flush=True)


if __name__ == "__main__":
    main()
