"""A run with hostile people: their data, their uploads, their handshakes; what the others reach."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from attackers import ASLEEP, ATTACKS, Scene

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_client.cohort import Cohort
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.stacks import inputs
from fedsub_core.data.standardise import Moments
from fedsub_core.errors import RunError
from fedsub_core.methods.table import METHODS as TABLE
from fedsub_core.metrics import MetricRow
from fedsub_core.options import Value
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import FloatArray
from fedsub_core.wire.handshake import Introduction

MIXING: dict[str, Value] = {"fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping-any"}
#: A backdoor: the last features, so many deviations from their means, stand for the last class.
TRIGGER, AWAY = 3, 5.0
#: By how much a sum of squares in a handshake is too large.
HANDSHAKE = 1e8
#: A mean in a handshake that no numbers near those of others have.
MEAN = 1e14


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
            x = inputs(test.x, test.scale).clone()
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
