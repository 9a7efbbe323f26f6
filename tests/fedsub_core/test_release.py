"""Whose release is behind, and whose packages fit."""

import pytest

from fedsub_core.release import Release, behind


def test_a_release_is_read_as_it_is_told() -> None:
    assert Release.of("0.1.0") == Release("0.1.0")
    told = "0.1.0 with a_folder 0+source and mine-package 1.2"
    assert Release.of(told) == Release("0.1.0", {"a_folder": "0+source", "mine-package": "1.2"})
    for odd in ("", " with ", "a with b and  and c", " and ", "1 with 2 with 3"):
        assert isinstance(Release.of(odd), Release)


@pytest.mark.parametrize(
    ("mine", "theirs", "older"),
    [
        ("0.1.0", "0.2.0", True),
        ("0.9", "0.10", True),
        ("0.1", "0.1.0", False),
        ("0.1.0", "0.1.0.post1", False),
        ("1.0", "0.9.9", False),
        ("0+source", "0.2.0", False),
        ("a fork", "0.2.0", False),
        ("9" * 5000, "0.2", False),
        ("0.2 with mine 1.2.3", "0.2 with mine 1.2.4", True),
        ("0.2 with mine 1.2.3", "0.2 with other 1.2.4", False),
    ],
)
def test_who_is_behind(mine: str, theirs: str, older: bool) -> None:
    assert Release.of(mine).behind(Release.of(theirs)) is older
    assert behind({"ann": mine, "bob": theirs}, theirs) == ({"ann": mine} if older else {})


@pytest.mark.parametrize(
    ("mine", "theirs", "fit"),
    [
        ("0.1", "7.0", True),
        ("0.1 with a 1.2.3 and b 2", "0.1 with a 1.2 and b 2.0.9", True),
        ("0.1 with a 1.2", "0.1 with a 1.3", False),
        ("0.1 with a 1.2", "0.1 with a 2.2", False),
        ("0.1 with a 1.2", "0.1", False),
        ("0.1", "0.1 with a 1.2", False),
        ("0.1 with a 1.2", "0.1 with b 1.2", False),
    ],
)
def test_packages_fit_by_the_first_two_numbers(mine: str, theirs: str, fit: bool) -> None:
    assert Release.of(mine).fits(Release.of(theirs)) is fit
    assert Release.of(theirs).fits(Release.of(mine)) is fit
