"""What methods of a run are held against."""

import pytest

from fedsub_server.twins import LOCAL, OWN, HeldAgainst, Scores, better_twin, held_against


@pytest.mark.parametrize(
    ("local", "own", "twin"),
    [
        ({}, {}, ""),
        ({"a": 0.5}, {}, LOCAL),
        ({}, {"a": 0.5}, OWN),
        ({"a": 0.5, "b": 0.7}, {"a": 0.6, "b": 0.7}, OWN),
        ({"a": 0.5, "b": 0.7}, {"a": 0.6, "b": 0.5}, LOCAL),
        # Of people who have both: whoever has one alone tips nothing.
        ({"a": 0.5}, {"a": 0.6, "b": 0.0}, OWN),
        ({"a": 0.5}, {"b": 0.9}, LOCAL),
    ],
)
def test_the_twin_has_the_higher_mean_over_people(
    local: dict[str, float], own: dict[str, float], twin: str
) -> None:
    assert better_twin(local, own) == twin


def test_one_twin_is_everybodys_and_all_methods() -> None:
    """Person b is better off trained alone, and is still held against own heads, as all are."""
    own = {2: {"a": 0.9, "b": 0.5}}
    local = Scores({2: {"a": 0.4, "b": 0.8}}, own)
    fedsub = Scores({2: {"a": 0.8, "b": 0.6}}, own)
    assert held_against("fedsub", fedsub, local) == HeldAgainst(OWN, 0.0, 0.5)
    found = held_against("local", local, local)
    assert found.twin == OWN and found.gain_over_twin == pytest.approx(-0.1)
    assert held_against("fedsub", fedsub, None) == HeldAgainst(OWN, 0.0, 0.5)


def test_devices_of_an_older_release_say_nothing_of_own_heads() -> None:
    local, fedsub = Scores({2: {"a": 0.4}}, {}), Scores({2: {"a": 0.5}}, {})
    found = held_against("fedsub", fedsub, local)
    assert found.twin == LOCAL and found.gain_over_twin == pytest.approx(0.1)
    assert held_against("local", local, local) == HeldAgainst()
    assert held_against("fedsub", fedsub, None) == HeldAgainst()
