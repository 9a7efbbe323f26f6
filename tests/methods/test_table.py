"""The table of methods: complete cards, found by themselves, and those of installed packages."""

import re
from collections.abc import Callable, Iterable
from importlib import reload
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from fedsub.testing import battery
from fedsub.testing.card_tests import CardTests
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError
from fedsub_core.methods import table
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import HOUSE, METHODS, method

TestCards = battery(*HOUSE, parts=(CardTests,))
ROOT = Path(__file__).resolve().parents[2]


def test_no_other_file_lists_the_methods() -> None:
    """A method that is added is found by itself: no code outside its own files knows three."""
    named = re.compile(f'"({"|".join(map(re.escape, METHODS))})"')
    for folder in ("fedsub", "fedsub_core", "fedsub_client", "fedsub_server", "strategies"):
        for path in (ROOT / folder).rglob("*.py"):
            text = re.sub(r'""".*?"""', "", path.read_text("utf-8"), flags=re.DOTALL)
            assert len(set(named.findall(text))) < 3, path


def test_the_nearest_name_is_suggested() -> None:
    with refused(ConfigError, "'fedbn'", "norm = 'local'"):
        method("fedbn")
    with refused(ConfigError, "'dito'", "'ditto'"):
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

    before = dict(vars(table))
    yield read
    # The very table that others have imported.
    vars(table).update(before)


def test_an_installed_package_adds_a_method(with_entry_points: Callable[..., Any]) -> None:
    read = with_entry_points(("theirs", f"{__name__}:THEIRS"))
    assert read.method("theirs") == THEIRS
    assert read.METHODS.keys() - {"theirs"} == HOUSE.keys()


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
    assert read.METHODS.keys() == HOUSE.keys(), "the others still work"
    with pytest.raises(ConfigError, match=words):
        read.method(name)


def test_a_card_with_fields_of_an_older_release_is_refused_by_name(
    with_entry_points: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = 'MethodCard("theirs", "an idea", "a paper", "m:L", "m:S", narrow="model")'
    text = f"from fedsub_core.methods.card import MethodCard\n\nCARD = {card}\n"
    (tmp_path / "older_card.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    read = with_entry_points(("theirs", "older_card:CARD"))
    with pytest.raises(ConfigError, match=r"'theirs': .* TypeError: .*'narrow'"):
        read.method("theirs")


def test_a_name_that_is_taken_stays_ours(
    with_entry_points: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    read = with_entry_points(("ditto", f"{__name__}:DITTO"))
    assert read.method("ditto").paper.startswith("Li et al., Ditto")
    assert "has the name of another method" in caplog.text
