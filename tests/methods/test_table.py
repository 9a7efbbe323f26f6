"""The table of methods: complete cards, found by themselves, and those of installed packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import reload
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from fedsub_client.learners.base import Learner
from fedsub_core.errors import ConfigError
from fedsub_core.methods import table
from fedsub_core.methods.card import Hyperparameters, MethodCard
from fedsub_core.methods.table import METHODS, method
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.options import describe
from strategies.rounds.strategy import PersonalizedStrategy

from .method_runs import every_method

ROOT = Path(__file__).resolve().parents[2]
#: What the server itself measures: no device may report it.
MEASURED = re.compile(
    r"bytes_.*|.*_replies|messages_resent|resting|clusters|macro_f1|weighted_f1|f1|loss|"
    r"accuracy|examples"
)


@every_method
def test_a_card_is_complete(name: str) -> None:
    card = METHODS[name]
    assert card.name == name and card.paper and card.idea and card.up and card.down
    assert card.choose and card.privacy, "what a person needs who chooses a method"
    assert issubclass(card.load_learner(), Learner)
    assert issubclass(card.load_strategy(), PersonalizedStrategy)
    hyper = card.hyperparameters()
    assert isinstance(hyper, Hyperparameters) and hyper.tested in ("received", "trained")
    assert all(option.doc for option in describe(card.hyperparameters))
    for model in (mlp(3, 6), cnn1d(3, 128, 6)):
        for declared in (card.sends(model, hyper), card.receives(model, hyper)):
            # Names stand in keys of states and databases, in which "/" and line breaks part them.
            assert all(re.fullmatch(r"[a-z0-9_.]+", tensor) for tensor in declared)
    assert card.cost(hyper, 3).round >= card.cost(hyper, 1).round > 0
    assert all(re.fullmatch(r"[a-z0-9_]+", report) for report in card.reports)
    assert not any(MEASURED.fullmatch(report) for report in card.reports)


def test_no_other_file_lists_the_methods() -> None:
    """A method that is added is found by itself: no code outside its own files knows three."""
    named = re.compile(f'"({"|".join(map(re.escape, METHODS))})"')
    for folder in ("fedsub", "fedsub_core", "fedsub_client", "fedsub_server", "strategies"):
        for path in (ROOT / folder).rglob("*.py"):
            text = re.sub(r'""".*?"""', "", path.read_text("utf-8"), flags=re.DOTALL)
            assert len(set(named.findall(text))) < 3, path


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(ConfigError, match=r"'fedbn' is not offered: .* standardise = 'client'"):
        method("fedbn")
    with pytest.raises(ConfigError, match=r"unknown method 'dito'\. Did you mean 'ditto'"):
        method("dito")


THEIRS = MethodCard("theirs", "an idea", "a paper", "m:L", "m:S")
NOT_THEIRS = MethodCard("other", "an idea", "a paper", "m:L", "m:S")
DITTO = MethodCard("ditto", "an idea", "a paper", "m:L", "m:S")


@pytest.fixture
def with_entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterable[Callable[..., Any]]:
    """Read the table anew as if packages offered something; afterwards as it is."""

    def read(*points: tuple[str, str]) -> Any:
        offered = [EntryPoint(name, value, table.GROUP) for name, value in points]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: offered)
        return reload(table)

    yield read
    monkeypatch.undo()
    reload(table)


def test_an_installed_package_adds_a_method(with_entry_points: Callable[..., Any]) -> None:
    read = with_entry_points(("theirs", f"{__name__}:THEIRS"))
    assert read.method("theirs") == THEIRS
    assert read.METHODS.keys() - {"theirs"} == METHODS.keys()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("theirs", "no.such.package:CARD", "cannot be loaded: ModuleNotFoundError"),
        ("theirs", "pathlib:Path", "no MethodCard of that name"),
        ("theirs", f"{__name__}:NOT_THEIRS", "no MethodCard of that name"),
    ],
)
def test_one_that_cannot_be_used_says_so_when_it_is_wanted(
    name: str, value: str, words: str, with_entry_points: Callable[..., Any]
) -> None:
    read = with_entry_points((name, value))
    assert read.METHODS.keys() == METHODS.keys(), "the others still work"
    with pytest.raises(ConfigError, match=words):
        read.method(name)


def test_a_name_that_is_taken_stays_ours(
    with_entry_points: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    read = with_entry_points(("ditto", f"{__name__}:DITTO"))
    assert read.method("ditto").paper.startswith("Li et al., Ditto")
    assert "has the name of another method" in caplog.text
