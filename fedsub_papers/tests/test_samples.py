"""Real images and texts as samples."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import Federation, read_federation, write_federation
from fedsub_papers.tests import shapes


@pytest.mark.parametrize("cut", [shapes.digits, shapes.photographs, shapes.news])
def test_real_samples_come_back_as_they_were(
    cut: Callable[..., Federation], real_data: Path, tmp_path: Path
) -> None:
    federation = cut(real_data, people=3, each=20)
    write_federation(tmp_path / "it", federation)
    back = read_federation(tmp_path / "it")
    assert back.card == federation.card
    kept = np.int32 if federation.card.sample == "tokens" else np.uint8
    for name, data in federation.clients.items():
        assert back.clients[name].x.dtype == data.x.dtype == kept
        np.testing.assert_array_equal(back.clients[name].x, data.x)
