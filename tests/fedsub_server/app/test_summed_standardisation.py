"""What all standardise by, where it is a sum: asked for once a run, whatever happens to its server.

A second sum, over other people, would tell of those who are in one alone.
"""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from fedsub_core.secure.messages import MOMENTS, SECURE

SUMS: dict[str, Any] = {
    "rounds": 1,
    "secure-aggregation": True,
    "robust": "none",
    "standardise": "federation",
}


@pytest.fixture
def listening(devices: Any) -> Any:
    """Make devices that note who was asked for moments, and for which method."""

    class Listening(devices):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.moments: list[str] = []

        def _work(self, message: Message) -> Message | None:
            if SECURE in message.content:
                told = message.content.config_records[SECURE]
                self.moments += [str(told["method"])] if told["phase"] == MOMENTS else []
            found: Message | None = super()._work(message)
            return found

    return Listening


def test_methods_of_a_run_share_it(
    data: str, tmp_path: Path, configuration: Any, serve: Any, listening: Any, result: Any
) -> None:
    keys = SUMS | {"method": "fedavg", "beside": "ditto"}
    config = configuration(data, tmp_path / "run", **keys)
    grid = listening(config)
    serve(grid, config)
    assert grid.moments == ["fedavg"] * 3
    plain = configuration(data, tmp_path / "plain", **keys | {"secure-aggregation": False})
    serve(listening(plain), plain)
    expected = result(plain, "fedavg")[1]["federation.mean"].tolist()
    for method in ("fedavg", "ditto"):
        assert result(config, method)[1]["federation.mean"].tolist() == expected
        assert {row.metric for row in result(config, method)[2]} >= {"secure_people", "macro_f1"}


def test_methods_without_use_for_features_do_not_make_others_ask_again(
    data: str, tmp_path: Path, configuration: Any, serve: Any, listening: Any
) -> None:
    """fedsub-ridge trains no model, and so standardises no features; ditto does."""
    keys = SUMS | {"method": "fedavg", "beside": "fedsub-ridge,ditto", "encoder": "relu:8"}
    config = configuration(data, tmp_path / "run", **keys)
    grid = listening(config)
    serve(grid, config)
    assert grid.moments == ["fedavg"] * 6, "of samples and of features"


def test_a_method_that_comes_later_asks_for_none(
    data: str, tmp_path: Path, configuration: Any, serve: Any, listening: Any, result: Any
) -> None:
    first = configuration(data, tmp_path / "run", method="fedavg", **SUMS)
    serve(listening(first), first)
    more = configuration(data, tmp_path / "run", method="ditto", **SUMS | {"beside": "fedavg"})
    grid = listening(more)
    serve(grid, more)
    assert not grid.moments
    both = [result(more, method)[1]["federation.mean"].tolist() for method in ("fedavg", "ditto")]
    assert both[0] == both[1]


def test_a_server_that_dies_in_the_first_round_goes_on_with_it(
    data: str,
    tmp_path: Path,
    configuration: Any,
    serve: Any,
    listening: Any,
    killed: Any,
    result: Any,
    assert_same: Any,
) -> None:
    calm, broken = (
        configuration(data, tmp_path / name, method="fedavg", **SUMS) for name in ("calm", "broken")
    )
    serve(listening(calm, tmp_path / "calm devices"), calm)
    with pytest.raises(killed):
        serve(listening(broken, tmp_path / "devices", 2), broken)
    assert result(broken)[0] == 0 and "federation.mean" in result(broken)[1]
    last = listening(broken, tmp_path / "devices")
    serve(last, broken)
    assert not last.moments
    assert result(broken)[0] == 1
    assert_same(result(broken)[1], result(calm)[1])
