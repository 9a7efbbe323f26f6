"""Puts the battery together: classes of tests, over the methods that are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fedsub.testing.card_tests import CardTests
from fedsub.testing.cohort_tests import CohortTests
from fedsub.testing.cost_tests import ByReferenceTests, CostTests
from fedsub.testing.engine_tests import EngineTests
from fedsub.testing.hostile_tests import HostileTests
from fedsub.testing.prediction_tests import BestRoundTests, MeanTests, PredictionTests
from fedsub.testing.round_tests import RoundTests

#: All that is fast.
PARTS: tuple[type, ...] = (
    CardTests,
    CostTests,
    CohortTests,
    RoundTests,
    ByReferenceTests,
    PredictionTests,
    BestRoundTests,
    MeanTests,
    HostileTests,
)


def battery(*names: str, parts: Sequence[type] = PARTS, **facts: Any) -> type:
    """Return a class of the tests that hold for every method, over the methods `names`.

    Bind it to a name that begins with ``Test``.

    Parameters
    ----------
    parts : classes of tests; all that are fast, if left out.
    facts : attributes of these that are otherwise of this method:
        ``makes_a_mean = False`` if it makes none that is everybody's, on which filters work;
        ``hostile_rounds`` if people need more than 10 to learn something.
    """
    wrong = [fact for fact in facts if not any(hasattr(part, fact) for part in parts)]
    if wrong:
        raise TypeError(f"battery: got {', '.join(wrong)}, of which no test makes use")
    return pytest.mark.parametrize("name", list(names))(type("Battery", tuple(parts), facts))


def engines(*names: str, deployed: Sequence[str] | None = None) -> type:
    """Return a class of slow tests: Ray and a deployment give what one process gives.

    A deployment starts a process for every message: `deployed` are the methods that it runs, all
    if left out.
    """
    facts = {"ray": list(names), "deployed": list(names if deployed is None else deployed)}
    return type("Engines", (EngineTests,), facts)
