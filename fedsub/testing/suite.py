"""Puts the battery together: classes of tests, over the methods that are named."""

from collections.abc import Sequence
from typing import Any

import pytest

from fedsub.testing.card_tests import CardTests
from fedsub.testing.cohort_tests import CohortTests
from fedsub.testing.cost_tests import CostTests
from fedsub.testing.cover import cases
from fedsub.testing.engine_tests import EngineTests
from fedsub.testing.hostile_tests import HostileTests
from fedsub.testing.message_tests import MessageTests
from fedsub.testing.order_tests import OrderTests
from fedsub.testing.round_tests import RoundTests
from fedsub.testing.tested_model_tests import (
    BestRoundTests,
    MeanTests,
    PredictionTests,
    TestedTests,
)

#: All that is fast.
PARTS: tuple[type, ...] = (
    CardTests,
    CostTests,
    CohortTests,
    RoundTests,
    MessageTests,
    PredictionTests,
    TestedTests,
    BestRoundTests,
    MeanTests,
    OrderTests,
    HostileTests,
)


def battery(*names: str, parts: Sequence[type] = PARTS, cover: bool = False, **facts: Any) -> type:
    """Return a class of the tests that hold for every method, over the methods `names`.

    Bind it to a name that begins with ``Test``.

    Parameters
    ----------
    parts : classes of tests; all that are fast, if left out.
    cover : mark as ``slow`` and ``release`` what runs the same half of a method once more, or
        the same method with another value (:mod:`fedsub.testing.cover`).
    facts : attributes of these that are otherwise of this method:
        ``makes_a_mean = False`` if it makes none that is everybody's, on which filters work;
        ``hostile_rounds`` if people need more than 8 to learn something.
    """
    wrong = [fact for fact in facts if not any(hasattr(part, fact) for part in parts)]
    if wrong:
        raise TypeError(f"battery: got {', '.join(wrong)}, of which no test makes use")

    def pytest_generate_tests(_: object, metafunc: pytest.Metafunc) -> None:
        arguments, found = cases(names, metafunc.function)
        left = (pytest.mark.slow, pytest.mark.release) if cover else ()
        marked = [pytest.param(*one, marks=() if covered else left) for one, covered in found]
        metafunc.parametrize(arguments, marked)

    own = {"pytest_generate_tests": pytest_generate_tests}
    return type("Battery", tuple(parts), facts | own)


def engines(*names: str) -> type:
    """Return a class of slow tests: Ray and a deployment give what one process gives."""
    return type("Engines", (EngineTests,), {"names": names})
