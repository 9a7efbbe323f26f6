"""What noise costs grows with how often something was released."""

from math import inf, sqrt

import pytest

from fedsub_core.accounting import spent_epsilon
from fedsub_core.errors import ConfigError


@pytest.mark.parametrize("releases", [4, 100])
def test_releases_add_up_as_one_with_less_noise(releases: int) -> None:
    """Renyi divergences of Gaussians add up: n releases cost what 1 / sqrt(n) of the noise does."""
    at_once = spent_epsilon(8.0 / sqrt(releases), 1, 1e-5)
    assert spent_epsilon(8.0, releases, 1e-5) == pytest.approx(at_once)
    assert spent_epsilon(8.0, 1, 1e-5) < at_once


def test_nothing_released_costs_nothing() -> None:
    assert spent_epsilon(8.0, 0, 1e-5) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1.0, inf])
def test_a_delta_that_is_no_chance_is_refused(delta: float) -> None:
    with pytest.raises(ConfigError, match="delta"):
        spent_epsilon(8.0, 1, delta)
