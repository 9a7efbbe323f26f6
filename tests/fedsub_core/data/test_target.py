"""Data with a target: its card, its values, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Card, ClientData, Federation, read_card, read_federation
from fedsub_core.data.federation import write_federation as write
from fedsub_core.data.target import Target, is_target
from fedsub_core.errors import DataError

PULSE = Target("pulse", "1/min", 40.0, 180.0)
CARD = Card("pulses", "a test", (), ("a", "b"), target=PULSE)


def of(y: Any, card: Card = CARD) -> Federation:
    x = np.random.default_rng(0).normal(size=(len(y), 2)).astype(np.float32)
    return Federation(card, {"ann": ClientData("ann", x, np.asarray(y))})


def test_a_federation_comes_back(tmp_path: Path) -> None:
    write(tmp_path / "f", of([40.0, 61.5, 180.0]))
    found = read_federation(tmp_path / "f")
    assert found.card == CARD
    assert found.clients["ann"].y.tolist() == [40.0, 61.5, 180.0]
    assert "classes" not in (tmp_path / "f/federation.toml").read_text()


def test_places_are_those_of_two_classes() -> None:
    place = PULSE.scaled(np.array([40.0, 110.0, 180.0]))
    assert place.tolist() == [-1, 0, 1]
    outputs = np.stack([-place, place], 1)
    assert PULSE.values(outputs).tolist() == [40, 110, 180]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("pulse", "1/min"),
        ("pulse", ""),
        ("way", "km to school"),
        ("steps from home to work", "from 1 to 2"),
        ("x from", " to "),
        ("x\ny", "a  b"),
    ],
)
@pytest.mark.parametrize("ends", [(-1.5, 1e-9), (40.0, 1e16)])
def test_ends_are_known_as_those_of_a_target(
    name: str, unit: str, ends: tuple[float, float]
) -> None:
    made = Target(name, unit, *ends)
    assert is_target(made.ends)
    assert not is_target(made.ends[::-1]) and not is_target(Target(name, unit, *ends[::-1]).ends)


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("sit", "walk"),
        PULSE.ends[:1],
        (*PULSE.ends, "sit"),
        ("a from 1.0", "b to 2.0"),
        ("a from 1.0 s", "a to 2.0 min"),
        ("walk from home", "walk to home"),
        ("walk from 1 home", "walk to 2 home"),
        ("walk from 1st", "walk to 2nd"),
        ("a from 2.0", "a to 1.0"),
        ("a from 1.0", "a to 1.0"),
        ("a from nan", "a to nan"),
        ("a from 1.0", "a to inf"),
        ("a from ", "a to "),
    ],
)
def test_names_of_classes_are_no_target(names: tuple[str, ...]) -> None:
    assert not is_target(names)


@pytest.mark.parametrize(
    ("y", "got"),
    [
        (["61", "fast", "70"], "<U4"),
        ([50.0, np.nan, 60.0], "nan"),
        ([50.0, 190.0, 60.0], "190.0"),
        ([50.0, -np.inf, 60.0], "-inf"),
    ],
)
def test_what_is_no_value_is_refused(y: Any, got: str, tmp_path: Path) -> None:
    with refused(DataError, "ann", "pulse" if got == "<U4" else "row 1", got=got):
        write(tmp_path / "f", of(y))
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('target = "pulse"', "target"),
        ('[target]\nname = "pulse"\nlow = 1', "target"),
        ('[target]\nname = "pulse"\nlow = 2\nhigh = 2', "target.high"),
        ('[target]\nname = "pulse"\nlow = nan\nhigh = 2', "target.low"),
        ('classes = ["a", "b"]\n[target]\nname = "pulse"\nlow = 1\nhigh = 2', "target"),
    ],
)
def test_cards_that_say_no_target_are_refused(lines: str, key: str, tmp_path: Path) -> None:
    text = 'name = "pulses"\ntask = "a test"\nfeatures = ["a"]\n'
    (tmp_path / "federation.toml").write_text(text + lines)
    with refused(DataError, key):
        read_card(tmp_path)


def test_a_constant_target_can_be_written(tmp_path: Path) -> None:
    write(tmp_path / "f", of([60, 60, 60], replace(CARD, name="constant")))
    assert read_federation(tmp_path / "f").clients["ann"].y.dtype == np.float64


def test_classes_with_the_names_of_a_targets_ends_are_refused(tmp_path: Path) -> None:
    """Others with numbers in their names are classes as any."""
    y = np.array([0, 1, 1])
    for names, known in ((("walk from 1 home", "walk to 2 home"), True), (PULSE.ends, False)):
        card = replace(CARD, target=None, classes=names)
        folder = tmp_path / str(known)
        if known:
            write(folder, of(y, card))
            assert read_card(folder).classes == names
        else:
            with refused(DataError, "classes", "target"):
                write(folder, of(y, card))
