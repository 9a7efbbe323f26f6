"""Whatever a server tells some devices of a sum otherwise, the sum does not open."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PEOPLE = 4


@pytest.fixture(scope="module")
def script() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield runpy.run_path(str(ROOT / "benchmarks" / "sums_lies.py"))


#: How many lies there are: the first is none.
LIES = range(1, 34)


def test_told_the_same_the_sum_opens(script: dict[str, Any]) -> None:
    assert len(script["LIES"]) == LIES.stop
    lied_to = script["lied_to"](script["OTHERS"], PEOPLE)
    found = script["outcome"](script["LIES"][0], lied_to, PEOPLE, ())
    assert (found.devices, found.opened_of) == ("answer", PEOPLE)
    assert found.read < 0.01


@pytest.mark.parametrize("place", LIES)
def test_told_differently_no_sum_opens(place: int, script: dict[str, Any]) -> None:
    """Neither a field of the plan, the list, the configuration, the turn, nor of the download."""
    lied_to = script["lied_to"](script["OTHERS"], PEOPLE)
    found = script["outcome"](script["LIES"][place], lied_to, PEOPLE, ())
    assert found.opened_of == 0, script["LIES"][place]


def test_the_pages_table_is_that_of_the_results(script: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "privacy-limits.md").read_text("utf-8")
    assert script["written"](page) == page
    whom = script["OTHERS"]
    keys = [(lie.method, lie.about, lie.said, whom) for lie in script["LIES"]]
    assert len(set(keys)) == len(keys)
    # There were no means of everybody before.
    new = {("fedsub", "means", "zeros", whom, "")}
    assert {(*key, "") for key in keys} - new <= script["rows_of"](script["BEFORE"]).keys()
    told = {key: int(people) for key, (_, people, _) in script["rows_of"](script["NOW"]).items()}
    for roster in script["ROSTERS"]:
        assert [told[*key, roster] for key in keys] == [10, *[0] * (len(keys) - 1)]
