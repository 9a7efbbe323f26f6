"""How the number of clusters is chosen, as text."""

import numpy as np
import pytest

from fedsub_core.errors import ConfigError
from strategies.methods.fedsub.clustering import KSelection, cluster, parse_k_selection


def test_parse() -> None:
    assert parse_k_selection("dbi") == KSelection("dbi")
    assert parse_k_selection("dbi-capped") == KSelection("dbi-capped")
    assert parse_k_selection("silhouette") == KSelection("silhouette")
    assert parse_k_selection("fixed:12") == KSelection("fixed", 12)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("dib", "'dbi'"),
        ("dbi:3", "'dbi'"),
        ("silhouete", "'silhouette'"),
        ("dbi_capped", "'dbi-capped'"),
        ("fixed", "'fixed:3'"),
        ("fixed:0", "'fixed:3'"),
        ("fixed:-1", "'fixed:3'"),
        ("fixed:2.5", "'fixed:3'"),
        ("fixd:4", "'fixed:3'"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_nearest(text: str, near: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_k_selection(text)
    assert repr(text) in str(error.value)
    assert str(error.value).endswith(f"Did you mean {near}?")


def test_a_rule_near_to_nothing_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigError, match="expected 'dbi', 'dbi-capped'") as error:
        cluster(np.ones((3, 1)), "", 0)
    assert "Did you mean" not in str(error.value)
