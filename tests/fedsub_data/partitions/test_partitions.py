"""What holds for every kind of partition."""

import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.cover import turns
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import (
    Card,
    ClientData,
    Federation,
    read_federation,
    write_federation,
)
from fedsub_core.data.splits import split
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import describe
from fedsub_data.partitions.feature_shift import FeatureShiftOptions
from fedsub_data.partitions.label_skew import DirichletOptions, PathologicalOptions
from fedsub_data.partitions.partitions import (
    HOUSE,
    PARTITIONS,
    NaturalOptions,
    counted_partition,
    partition_options,
)

CARD = Card("toy", "test", ("a", "b", "c", "d"), ("number", "u"), "m", None, 2.0, 0.5, True)
KINDS: list[tuple[str, Any]] = [
    ("natural", NaturalOptions()),
    ("dirichlet", DirichletOptions(6, 0.3, 9)),
    ("pathological", PathologicalOptions(6, 2)),
    ("feature-shift", FeatureShiftOptions(gain=0.0, offset=0.0)),
    ("feature-shift", FeatureShiftOptions("iid", 6, gain=0.0, offset=0.0)),
]
POOLED = [k for k in KINDS if k[0] != "natural" and getattr(k[1], "base", "") != "natural"]


def people(seed: int = 0, timed: bool = True, card: Card = CARD) -> Federation:
    """Four people, each with all classes; the first feature numbers all samples."""
    rng, made, number = np.random.default_rng(seed), {}, 0
    for name in "pqrs":
        n = int(rng.integers(80, 120))
        x = np.column_stack([np.arange(number, number + n), rng.normal(size=n)])
        number += n
        t = np.arange(n, dtype=np.float64) + rng.uniform(0, 1e4) if timed else None
        since = rng.integers(0, 2, n)
        y = np.sort(np.arange(n) % 4)
        made[name] = ClientData(name, x.astype(np.float32), y, t, since)
    return Federation(card, made)


def same(one: Federation, other: Federation) -> bool:
    if list(one.clients) != list(other.clients):
        return False
    pairs = [(one.clients[name].arrays(), other.clients[name].arrays()) for name in one.clients]
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a) for a, b in pairs
    )


@given(st.sampled_from(KINDS), st.integers(0, 2**31), st.booleans(), st.randoms())
def test_samples_stay_whole_and_come_once_whatever_the_order_of_clients(
    kind: tuple[str, Any], seed: int, timed: bool, random: random.Random
) -> None:
    check_samples_stay_whole(kind, seed, timed, random, kind in POOLED)


def check_samples_stay_whole(
    kind: tuple[str, Any],
    seed: int,
    timed: bool,
    random: random.Random,
    pooled: bool,
    divisor: int = 1,
) -> None:
    """Check a partition of people: `divisor` of clients of one size, which leave out the rest."""
    federation = people(timed=timed)
    made = counted_partition(federation, *kind, seed).federation
    shuffled = random.sample(list(federation.clients.items()), len(federation.clients))
    assert same(
        made, counted_partition(Federation(federation.card, dict(shuffled)), *kind, seed).federation
    )
    whole: dict[str, Any] = {
        key: np.concatenate([d.arrays()[key] for d in federation.clients.values()])
        for key in ("x", "y", "since")
    }
    numbers = []
    for data in made.clients.values():
        rows = data.x[:, 0].astype(int)
        numbers += rows.tolist()
        for key, values in whole.items():
            np.testing.assert_array_equal(data.arrays()[key], values[rows])
        np.testing.assert_array_equal(rows, np.sort(rows))  # person after person, in their order
        assert data.t is None or (np.diff(data.t) > 0).all()
        assert (data.t is not None) == (timed or pooled)
        for how in ("stratified", "blocked"):
            train, test = split(data, made.card, how, 0.3, seed)
            assert len(train) > 0
            assert len(test) > 0
    assert len(set(numbers)) == len(numbers)
    # Where all get as many, the rest of the division is left out; of 0, any number.
    assert not divisor or len(numbers) == len(whole["y"]) - len(whole["y"]) % divisor


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_the_card_is_kept_but_for_the_name(kind: str, options: Any) -> None:
    made = counted_partition(people(), kind, options, 0).federation
    assert made.card == replace(CARD, name=f"toy-{kind}")


@pytest.mark.parametrize(("kind", "options"), POOLED)
def test_pooled_clients_are_numbered_and_differ_by_seed(kind: str, options: Any) -> None:
    one, again, other = (
        counted_partition(people(), kind, options, seed).federation for seed in (0, 0, 1)
    )
    assert list(one.clients) == [f"c00{i}" for i in range(6)]
    assert [data.client for data in one.clients.values()] == list(one.clients)
    assert same(one, again)
    assert not same(one, other)


def test_natural_is_the_federation_as_it_is() -> None:
    federation = people()
    made = counted_partition(federation, "natural", NaturalOptions(), 0)
    assert same(made.federation, federation)
    sizes = sorted(len(d.y) for d in federation.clients.values())
    assert made.counts == {
        "clients before": 4,
        "clients": 4,
        "samples placed": sum(sizes),
        "samples left out": 0,
        "clients too short for a blocked split": 0,
        "samples of a client: fewest": sizes[0],
        "samples of a client: median": round((sizes[1] + sizes[2]) / 2),
        "samples of a client: most": sizes[3],
        "classes of a client: fewest": 4,
        "classes of a client: median": 4,
        "classes of a client: most": 4,
    }


def test_clients_that_only_a_random_split_can_test_are_counted() -> None:
    # Ten windows of one stretch that overlap by 90 %: no gap fits in between.
    card = replace(CARD, overlap=0.9)
    data = ClientData("1", np.arange(20, dtype=np.float32).reshape(10, 2), np.zeros(10, np.int64))
    other = replace(data, client="2", y=np.ones(10, np.int64))
    federation = Federation(card, {"1": data, "2": other})
    made = counted_partition(federation, "pathological", PathologicalOptions(2, 1), 0)
    assert made.counts["clients too short for a blocked split"] == 2


def test_unknown_kinds_and_options_are_refused() -> None:
    with refused(ConfigError, "'dirichelt'", "'dirichlet'"):
        partition_options("dirichelt")
    assert partition_options("dirichlet") is DirichletOptions
    with refused(ConfigError, got="NaturalOptions", expected="DirichletOptions"):
        counted_partition(people(), "dirichlet", NaturalOptions(), 0)
    with refused(ConfigError, "dirichlet", "alpha", got="0.0", expected="number"):
        counted_partition(people(), "dirichlet", DirichletOptions(alpha=0.0), 0)
    with refused(ConfigError, "base", got="'id'", expected=["natural", "iid"]):
        counted_partition(people(), "feature-shift", FeatureShiftOptions("id"), 0)


def test_a_person_who_could_not_be_tested_is_refused() -> None:
    lonely = ClientData("x", np.zeros((2, 2), np.float32), np.array([0, 1]))
    federation = Federation(CARD, {"x": lonely})
    with refused(DataError, "natural", "client 'x'", "2 samples"):
        counted_partition(federation, "natural", NaturalOptions(), 0)


@pytest.mark.parametrize("kind", HOUSE)
def test_options_are_described_for_the_command_line(kind: str) -> None:
    row = PARTITIONS[kind]
    options = describe(row.options)
    assert len(options) == len(fields(row.options))
    values = {o.key.replace("-", "_"): o.parse(str(o.default), kind) for o in options}
    assert row.options(**values) == row.options()


@pytest.mark.parametrize(("name", "kind"), turns(["wisdm", "wesad"], list(HOUSE)))
def test_real_people_can_be_split_both_ways(
    real_data: Path, tmp_path: Path, name: str, kind: str
) -> None:
    federation = read_federation(real_data / name)
    options: list[Any] = [PARTITIONS[kind].options()]
    if kind == "feature-shift":
        options.append(FeatureShiftOptions("iid"))
    if kind == "dirichlet":
        options.append(DirichletOptions(50, 0.01))
    check_both_ways(federation, kind, options, tmp_path)


def check_both_ways(federation: Federation, kind: str, options: list[Any], tmp_path: Path) -> None:
    """Check that all clients of a partition can be split both ways, and come back from files."""
    for chosen in options:
        made = counted_partition(federation, kind, chosen, 0)
        assert made.counts["clients too short for a blocked split"] == 0
        for data in made.federation.clients.values():
            for how in ("stratified", "blocked"):
                train, test = split(data, made.federation.card, how, 0.3, 0)
                assert min(len(train), len(test)) > 0
                if how == "blocked" and data.t is not None:
                    apart = np.abs(data.t[train][:, None] - data.t[test][None, :]).min()
                    assert apart >= 60.0 - 1e-4
    write_federation(tmp_path / kind, made.federation)
    assert same(read_federation(tmp_path / kind), made.federation)
