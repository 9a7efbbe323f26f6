"""The dynamic scenario: people who lack classes at first and get them back during the run.

FedSub's evaluation (Campana and Delmastro, journal version): most clients start without most of
their classes; every so many rounds each gets one of them back, in training and in test. The
schedule is written into the clients' files (``since``), so that every engine, a device of its own
included, plays the same scenario without anybody telling it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.splits import SplitKind, split
from fedsub_core.errors import DataError
from fedsub_core.options import option
from fedsub_core.seeds import derive_seed

#: The share that is tested while the scenario is made, FedSub's.
TEST_SHARE = 0.3


@dataclass(frozen=True)
class EvolutionOptions:
    """Who loses how much, and how fast it comes back; the paper's values for activities."""

    clients: float = option(0.6, "share of clients that lose classes", minimum=0, maximum=1)
    classes: float = option(
        0.8, "largest share of its classes that a client loses", minimum=0, maximum=1
    )
    every: int = option(50, "number of rounds until a client gets its next class back", minimum=1)


def evolve(federation: Federation, options: EvolutionOptions, seed: int) -> Federation:
    """Return `federation` with a schedule of what each client has in which round.

    The nearest whole number of ``clients`` x all clients is drawn. Each of them loses between one
    and ``classes`` x its own classes (rounded down), drawn uniformly, but always keeps one that
    can be trained and tested. The classes come back one by one, in a random order, in rounds
    ``every + 1``, ``2 * every + 1``, ...; whoever has a single class loses nothing.

    Raises DataError where a client already has a schedule.
    """
    for name, data in federation.clients.items():
        if data.since is not None:
            raise DataError(
                f"federation {federation.card.name!r}: client {name!r} already has a schedule; "
                "expected one without. Start from the original federation."
            )
    names = sorted(federation.clients)
    drawn = np.random.default_rng(derive_seed(seed, "", 0, "evolving clients"))
    count = int(len(names) * options.clients + 0.5)
    evolving = {names[i] for i in drawn.permutation(len(names))[:count]}
    clients = {
        name: replace(data, since=_since(data, federation.card, options, seed))
        if name in evolving
        else data
        for name, data in federation.clients.items()
    }
    card = replace(federation.card, name=f"{federation.card.name}-dynamic")
    return Federation(card, clients)


@dataclass(frozen=True)
class Arrival:
    """The samples that come in one round, and how many clients gain some of them."""

    round: int
    samples: int
    clients: int


def arrivals(clients: Iterable[ClientData]) -> tuple[Arrival, ...]:
    """Return the samples that come in each round; (): all clients have all theirs in the first."""
    counted: dict[int, list[int]] = {}
    everybody = list(clients)
    for data in everybody if any(data.since is not None for data in everybody) else ():
        since = np.ones(len(data.y), np.int64) if data.since is None else data.since
        rounds, counts = np.unique(np.maximum(since, 1), return_counts=True)
        for round, count in zip(rounds.tolist(), counts.tolist(), strict=True):
            counted.setdefault(round, []).append(count)
    return tuple(Arrival(round, sum(n), len(n)) for round, n in sorted(counted.items()))


def _since(
    data: ClientData, card: Card, options: EvolutionOptions, seed: int
) -> NDArray[np.int64] | None:
    rng = np.random.default_rng(derive_seed(seed, data.client, 0, "evolving classes"))
    classes = np.unique(data.y)
    most = min(int(len(classes) * options.classes + 1e-9), len(classes) - 1)
    if most < 1:
        return None
    order = rng.permutation(classes)
    # One that both kinds of split can train and test stays, wherever there is one.
    firm = [int(c) for c in order if c in _testable(data, card)] or [int(order[0])]
    lost = [int(c) for c in order if c != firm[0]][: int(rng.integers(1, most + 1))]
    since = np.zeros(len(data.y), np.int64)
    for place, label in enumerate(lost, start=1):
        since[data.y == label] = place * options.every + 1
    return since


def _testable(data: ClientData, card: Card) -> set[int]:
    """Return the classes that have training and test samples after either split."""
    classes = set(np.unique(data.y).tolist())
    kinds: tuple[SplitKind, ...] = ("stratified", "blocked")
    for kind in kinds:
        try:
            train, test = split(data, card, kind, TEST_SHARE, 0)
        except DataError:  # the run itself will say so, if it asks for this kind
            continue
        classes &= set(data.y[train].tolist()) & set(data.y[test].tolist())
    return classes
