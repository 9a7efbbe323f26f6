"""What cards of several methods declare of phases of a run, and of groups of people."""

from __future__ import annotations

from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.options import option


def phase(given: int, rounds: int, share: float) -> int:
    """Return the rounds that a phase lasts: `given`, or for 0 a `share` of the run, 1 at least.

    Publications fix phases for their own run's length; a share keeps them for any other.
    """
    return given or max(1, int(share * rounds))


def require_within(name: str, key: str, last: int, rounds: int) -> None:
    """Raise a ConfigError where a phase of method `name` would begin or end after the run."""
    if last > rounds:
        raise ConfigError(
            f"{name}.{key}: got a phase that lasts until round {last} of {rounds}, expected one "
            "within the run. Lower it, or raise rounds"
        )


def group_count(default: str) -> Any:
    """Return the hyperparameter that says into how many groups people are divided."""
    rules = r"fixed:[1-9][0-9]*|silhouette"
    like = "silhouette or fixed:K, such as fixed:3"
    return option(default, "number of groups: fixed:K or silhouette", pattern=rules, like=like)
