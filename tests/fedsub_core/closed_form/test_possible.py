"""What samples lead to passes, however it is rounded; what none can have does not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub.testing.lying_sums import LIES, rounded_lie
from fedsub_core.closed_form.possible import (
    MOST_EXPLAINED,
    Lost,
    could_be,
    explained_share,
    squared_error,
)
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import Statistics, recency, statistics

CLASSES, FEATURES = 4, 40
NOTHING = Lost(np.zeros(FEATURES + 1), 0.0)


def samples(
    kind: str, n: int, stream: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return n samples: noise, on a plane, nearly all alike, or of classes far apart."""
    y = stream.integers(0, CLASSES, n)
    if kind == "noise":
        x = stream.integers(-128, 128, (n, FEATURES)).astype(float)
    elif kind == "plane":
        x = stream.normal(0, 30, (n, 2)) @ stream.normal(0, 1, (2, FEATURES))
    elif kind == "alike":
        x = np.full((n, FEATURES), 127.0)
        x[: n // 2, 0] = -5
    else:
        x = stream.normal(0, 4, (n, FEATURES)) + 60 * stream.normal(0, 1, (CLASSES, FEATURES))[y]
        y = np.where(stream.random(n) < 0.9, y, 0)
    return (np.clip(np.rint(x), -128, 127) / 128).astype(np.float32), y


def honest(n: int = 200, seed: int = 0) -> Statistics:
    return statistics(*samples("classes", n, np.random.default_rng(seed)), CLASSES)


@pytest.mark.parametrize("kind", ["noise", "plane", "alike", "classes"])
@pytest.mark.parametrize("n", [1, 2, 5, 39, 45, 400, 20_000])
def test_what_samples_lead_to_could_be(kind: str, n: int) -> None:
    x, y = samples(kind, n, np.random.default_rng(n))
    whole = statistics(x, y, CLASSES)
    assert could_be(Rounded.of(whole))
    share, head = explained_share(whole)
    assert share < 1
    rounded = Rounded.of(whole)
    for lost in Lost.of(rounded), Lost.of_many(rounded.statistics(), 1):
        for one in head, explained_share(rounded.statistics())[1]:
            assert squared_error(rounded.statistics(), one, lost) > 0
    if n < 1000:
        fading = statistics(x, y, CLASSES, recency(y, 0.95))
        assert could_be(Rounded.of(fading), fading=True)


def test_no_head_has_a_squared_error_below_0_on_samples() -> None:
    stream, whole = np.random.default_rng(0), honest()
    for _ in range(20):
        assert squared_error(whole, stream.normal(0, 1, FEATURES + 1), NOTHING) >= 0
    assert squared_error(whole, explained_share(whole)[1], NOTHING) > 0


@pytest.mark.parametrize("name", ["empty sums", "torn sums", "bound sums"])
def test_what_no_samples_have_could_not_be(name: str) -> None:
    assert not could_be(rounded_lie(Rounded.of(honest()), LIES[name]))


def test_few_samples_do_not_vary_in_all_directions() -> None:
    """Products that only grow on the diagonal have no eigenvalue below 0, and stiffen all heads."""
    few, many = (rounded_lie(Rounded.of(honest(n)), LIES["strong sums"]) for n in (30, 200))
    assert not could_be(few)
    assert could_be(many), "of so many samples they may be real"


def test_a_head_on_torn_sums_says_more_than_is_right() -> None:
    sums = rounded_lie(Rounded.of(honest()), LIES["torn sums"])
    whole = sums.statistics()
    share, head = explained_share(whole)
    assert share > MOST_EXPLAINED
    for lost in Lost.of(sums), Lost.of_many(whole, 1):
        assert squared_error(whole, head, lost) < 0
