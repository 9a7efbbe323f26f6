"""Sums of the same numbers whose people differ by fewer than the least are not opened."""

from collections.abc import Sequence
from typing import Any

import pytest

from fedsub_core.secure.opened_sums import OpenedSum, OpenedSums


def of(people: str, silent: str = "", **other: Any) -> OpenedSum:
    """Return a sum of people of one letter each, all of whom are known."""
    facts = {"what": "statistics", "run": "a", "round": 2, "vector": "v", "whole": True, "least": 3}
    return OpenedSum(**{**facts, "sent": tuple(people), "silent": tuple(silent), **other})


#: Of other runs of the same people.
LATER: dict[str, Any] = {"run": "b", "vector": "w"}


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        (["abcdefg"], of("abcdefg"), None),
        (["abcdefg"], of("abcdefg", **LATER), None),
        (["abcdefg"], of("abcdef", **LATER), "['g']"),
        (["abcdefg"], of("abcde", **LATER), "['f', 'g']"),
        (["abcdefg"], of("abcd", **LATER), None),
        (["abcdefg"], of("abcdefgh", **LATER), "['h']"),
        (["abcdefg"], of("abcdefghij", **LATER), None),
        # One left and three came: what the three add may be known of another sum.
        (["abcdefg"], of("abcdefhij", **LATER), "['g']"),
        (["abcdefg"], of("abcdhij", **LATER), None),
        # Two groups of one sum, and two that tell the one in both apart.
        (["abcdefg", "abcd"], of("efg"), None),
        (["abcdef", "abc"], of("def"), None),
        (["abcdefg"], of("adhijk", **LATER), "['a', 'd']"),
        (["abcd", "aefg"], of("ahij", **LATER), "['a']"),
        # Three that pairwise differ by three and more.
        (["abcdefgh", "abcdeijk"], of("abfghijk", **LATER), "['a', 'b']"),
    ],
)
def test_what_sums_tell_apart_is_nobody_or_the_least(
    before: Sequence[str], now: OpenedSum, names: str | None
) -> None:
    fault = OpenedSums(of(people) for people in before).fault(now)
    assert (fault is None) == (names is None)
    assert fault is None or ((names or "") in fault[0] and "'a'" in fault[1])


def test_in_one_run_the_vector_is_that_of_before() -> None:
    """Another weight would tell of the heaviest person alone."""
    fault = OpenedSums([of("abc")]).fault(of("abc", vector="w"))
    assert fault is not None and fault[0] == "another vector"


def test_the_same_numbers_under_another_name_are_the_same() -> None:
    fault = OpenedSums([of("abcd")]).fault(of("abc", what="equations of sums x", run="b"))
    assert fault is not None and "['d']" in fault[0]
    assert OpenedSums([of("abcd")]).fault(of("abc", what="moments", vector="w")) is None


def test_who_may_still_go_silent_counts_when_all_is_known() -> None:
    opened, now = OpenedSums([of("abc")]), of("abcd", **LATER)
    assert opened.fault(now, planned=True) is None and opened.fault(now) is not None
    assert opened.fault(of("ab", **LATER), planned=True) is not None


def test_a_run_of_fewer_at_least_does_not_lower_what_was_promised() -> None:
    opened = OpenedSums([of("abcdefg", least=3)])
    fault = opened.fault(of("abcde", least=2, **LATER))
    assert fault is not None and "at least 3" in fault[1]


def test_of_neighbours_alone_it_compares_those_whom_it_knows_in_both() -> None:
    part: dict[str, Any] = {"whole": False}
    opened = OpenedSums([of("abcdx", **part)])
    # Of x it is not known whether it is in the second one, of d it is.
    assert opened.fault(of("abcy", "", **part, **LATER)) is None
    fault = opened.fault(of("abcy", "d", **part, **LATER))
    assert fault is not None and "['d']" in fault[0]
    # In one run nobody may differ.
    assert opened.fault(of("abcdefghijx", **part)) is not None


def test_the_date_is_for_readers_and_the_same_sum_stands_there_once() -> None:
    opened = OpenedSums(today="2026-01-02")
    for run in "abab":
        opened.add(of("cde", run=run))
    assert len(opened.sums) == 2 and opened.of_run("b") and not opened.of_run("c")
    fault = opened.fault(of("cdef", run="z"))
    assert fault is not None and "of run 'a', opened on 2026-01-02" in fault[1]
    kept = OpenedSums.read(opened.written())
    assert kept.sums == opened.sums
    # People stand there once, however many runs they are in.
    many = OpenedSums(of("c" * 900 + "d", run=f"run {i}") for i in range(100))
    assert len(many.written()) < 100 * 180 + 900 * 6


@pytest.mark.parametrize(
    "damaged", [b"{", b"[]", b"{}", b'{"people": [], "sums": [{"sent": 0, "silent": 0}]}', b"3"]
)
def test_a_damaged_one_is_none(damaged: bytes) -> None:
    with pytest.raises(ValueError):
        OpenedSums.read(damaged)


def test_who_lost_it_opens_nothing_that_stays_the_same() -> None:
    fault = OpenedSums(lost="opened-sums.json").fault(of("abc"))
    assert fault is not None and "opened-sums.json" in fault[1]
