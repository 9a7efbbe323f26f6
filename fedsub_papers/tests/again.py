"""Tests of the house, over other cases than its own."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def again(test: Any, names: str | tuple[str, ...], cases: Iterable[Any]) -> Test:
    """Return a test of the house whose parameters `names` have these values instead.

    Bind it to a name that begins with ``test_``.
    """

    @wraps(test)
    def over_others(**arguments: Any) -> None:
        test(**arguments)

    marks = [mark for mark in test.pytestmark if mark.args[:1] != (names,)]
    if len(marks) != len(test.pytestmark) - 1:
        raise TypeError(f"{test.__name__}: got {names}, expected names that it is parametrised by")
    over_others.pytestmark = [*marks, pytest.mark.parametrize(names, cases).mark]  # type: ignore[attr-defined]
    return over_others
