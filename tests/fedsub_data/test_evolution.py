"""The dynamic scenario: who loses what, and when it comes back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.cover import turns
from fedsub_client.split_client import split_client
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, read_federation
from fedsub_core.errors import DataError
from fedsub_data.evolution import EvolutionOptions, arrivals, evolve

CARD = Card("toy", "t", tuple("abcde"), ("u",))


def federation(clients: int = 20, classes: int = 5) -> Federation:
    y = np.repeat(np.arange(classes), 10)
    x = np.zeros((len(y), 1), np.float32)
    people = [f"p{i:02d}" for i in range(clients)]
    return Federation(CARD, {name: ClientData(name, x, y) for name in people})


def lost(data: ClientData) -> dict[int, int]:
    """Return the round in which each lost class comes back."""
    if data.since is None:
        return {}
    rounds = {int(c): set(data.since[data.y == c].tolist()) for c in np.unique(data.y)}
    assert all(len(r) == 1 for r in rounds.values())
    return {c: r.pop() for c, r in rounds.items() if r != {0}}


def test_the_papers_scenario() -> None:
    made = evolve(federation(), EvolutionOptions(), seed=1)
    gone = [lost(data) for data in made.clients.values()]
    assert sum(bool(g) for g in gone) == 12  # 60 % of 20
    assert {len(g) for g in gone if g} == {1, 2, 3, 4}  # up to 80 % of 5 classes
    for g in gone:
        assert sorted(g.values()) == [50 * i + 1 for i in range(1, len(g) + 1)]
    assert len({c for g in gone for c in g}) == 5
    assert made.card.name == "toy-dynamic"
    come = arrivals(made.clients.values())
    assert [one.round for one in come] == [1, 51, 101, 151, 201]
    assert (come[1].samples, come[1].clients) == (120, 12)


def test_the_schedule_follows_from_the_seed_alone() -> None:
    one = federation()
    reverse = Federation(CARD, dict(reversed(one.clients.items())))
    a, b = (evolve(f, EvolutionOptions(), 3) for f in (one, reverse))
    other = evolve(one, EvolutionOptions(), 4)
    same = [lost(a.clients[n]) == lost(b.clients[n]) for n in one.clients]
    assert all(same)
    assert any(lost(a.clients[n]) != lost(other.clients[n]) for n in one.clients)


@pytest.mark.parametrize("options", [EvolutionOptions(clients=0.0), EvolutionOptions(classes=0.0)])
def test_nobody_or_nothing_to_lose(options: EvolutionOptions) -> None:
    assert arrivals(evolve(federation(), options, 0).clients.values()) == ()


def test_a_single_class_stays() -> None:
    alone = evolve(federation(classes=1), EvolutionOptions(), 0)
    assert arrivals(alone.clients.values()) == ()
    everything = evolve(federation(), EvolutionOptions(clients=1.0, classes=1.0), 0)
    assert max(len(lost(d)) for d in everything.clients.values()) == 4


def test_the_class_that_stays_can_be_tested() -> None:
    y = np.array([0, 1, 2, 3] + [4] * 20)
    data = ClientData("p", np.arange(24, dtype=np.float32)[:, None], y)
    for seed in range(20):
        options = EvolutionOptions(clients=1.0)
        made = evolve(Federation(CARD, {"p": data}), options, seed).clients["p"]
        assert made.since is not None and 4 not in lost(made)


def test_a_schedule_on_a_schedule_is_refused() -> None:
    made = evolve(federation(), EvolutionOptions(), 0)
    with pytest.raises(DataError, match="already has a schedule"):
        evolve(made, EvolutionOptions(), 0)


@pytest.mark.parametrize(("name", "kind"), turns(["wisdm", "wesad"], ["stratified", "blocked"]))
def test_every_person_of_real_federations_can_start(real_data: Path, name: str, kind: str) -> None:
    settings = SplitSettings(kind)
    real = read_federation(real_data / name)
    made = evolve(real, EvolutionOptions(classes=1.0, clients=1.0), 0)
    for data in made.clients.values():
        parts = split_client(data, made.card, settings)
        assert 0 not in parts.held(1)
        assert parts.held(10_000) == split_client(
            replace(data, since=None), made.card, settings
        ).held(1)
