"""Features of windows against the real ones that studies are made with, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.statistics import statistics


@pytest.mark.parametrize(
    ("windows", "features"), [("uci-har", "uci-har-stats"), ("wisdm-windows", "wisdm-stats")]
)
def test_they_are_those_that_studies_are_made_with(
    windows: str, features: str, real_data: Path
) -> None:
    made = statistics(read_federation(real_data / windows))
    expected = read_federation(real_data / features)
    assert replace(made.card, name=features) == expected.card
    assert list(made.clients) == list(expected.clients)
    for name, data in made.clients.items():
        np.testing.assert_allclose(data.x, expected.clients[name].x, rtol=1e-5, atol=1e-5)
        assert data.x.dtype == np.float32
        np.testing.assert_array_equal(data.y, expected.clients[name].y)


def test_features_have_no_statistics(real_data: Path) -> None:
    federation = read_federation(real_data / "wisdm")
    with refused(DataError, "client '01'", "(3,)", expected="windows"):
        statistics(federation)
