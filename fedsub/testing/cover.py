"""A cover of the battery: each half of a method once, each value of a test once, not all of them.

Methods that share a half share its tests: a test says of which half it is (:func:`of`), and which
of its values take turns (:func:`in_turn`).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest

from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import METHODS

#: What of a method a test is about: methods for which it is equal need the test once.
Half = Callable[[MethodCard], object]
#: A function of a test; what it is about is written on it.
Test = Callable[..., Any]


def device(card: MethodCard) -> object:
    """Return the code of a method on a device: learners and predictor."""
    return card.load_learner(False), card.load_learner(True), card.load_predictor()


def server(card: MethodCard) -> object:
    """Return the server halves of a method, plain and of sums."""
    return card.load_strategy(False), card.load_strategy(True)


def pair(card: MethodCard) -> object:
    """Return both halves."""
    return device(card), server(card)


def itself(card: MethodCard) -> object:
    """Return the method: what its own card says differs from all others'."""
    return card.name


def of(half: Half) -> Callable[[Test], Test]:
    """Say which half of a method a test is about; both, if it says nothing."""

    def say(test: Test) -> Test:
        test.half = half  # type: ignore[attr-defined]
        return test

    return say


def in_turn(argument: str, values: Sequence[object]) -> Callable[[Test], Test]:
    """Say with which values of an argument a test runs; a cover takes another for each method."""

    def say(test: Test) -> Test:
        test.argument, test.values = argument, values  # type: ignore[attr-defined]
        return test

    return say


def chosen(names: Sequence[str], half: Half, values: int) -> set[tuple[str, int]]:
    """Return pairs of a method and a value's place in which each half and each value occurs."""
    first: dict[object, str] = {}
    for name in names:
        first.setdefault(half(METHODS[name]), name)
    kept = list(first.values())
    return {(kept[i % len(kept)], i % values) for i in range(max(len(kept), values))}


#: Values of a test's arguments, and whether a cover has them.
Case = tuple[tuple[object, ...], bool]


def cases(names: Sequence[str], test: Test) -> tuple[list[str], list[Case]]:
    """Return a test's arguments, and all their combinations."""
    argument: str | None = getattr(test, "argument", None)
    values: Sequence[object] = getattr(test, "values", [None])
    kept = chosen(names, getattr(test, "half", pair), len(values))
    every = [(name, i, value) for name in names for i, value in enumerate(values)]
    if argument is None:
        return ["name"], [((name,), (name, i) in kept) for name, i, _ in every]
    return ["name", argument], [((name, value), (name, i) in kept) for name, i, value in every]


#: What runs before a release alone, as a faster test shows the same.
LATER = (pytest.mark.slow, pytest.mark.release)


def turns(*values: Iterable[object]) -> list[Any]:
    """Return all combinations of some arguments' values as cases; fast are those of a cover.

    In a cover each value occurs, and those of shorter axes take turns.
    """
    axes = [list(each) for each in values]
    most = max(map(len, axes))
    fast = {tuple(i % len(axis) for axis in axes) for i in range(most)}
    return [
        pytest.param(*(axis[i] for axis, i in zip(axes, at, strict=True)), marks=marks)
        for at in product(*(range(len(axis)) for axis in axes))
        for marks in [() if at in fast else LATER]
    ]
