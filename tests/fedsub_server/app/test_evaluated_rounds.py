"""Over a network the common model is tested in some rounds alone: it takes a second exchange."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import MessageType

from fedsub_core.config.run_config import read_config
from fedsub_server.app import evaluated_in_time

ROUNDS = 6


class InMemoryGrid:
    """By its name, Flower's engine of simulated nodes."""


@pytest.mark.parametrize(
    ("keys", "every", "tested"),
    [
        ({"method": "fedavg", "evaluate-every": 0}, 5, [5, 6]),
        ({"method": "fedavg", "evaluate-every": 1}, 1, [1, 2, 3, 4, 5, 6]),
        ({"method": "fedavg", "beside": "local", "evaluate-every": 0}, 5, [5, 6]),
        ({"method": "local", "beside": "fedavg", "evaluate-every": 0}, 1, [1, 2, 3, 4, 5, 6]),
        ({"method": "fedsub", "evaluate-every": 0}, 1, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_rounds_in_which_people_are_tested(
    keys: dict[str, Any],
    every: int,
    tested: list[int],
    data: str,
    tmp_path: Path,
    configuration: Any,
    serve: Any,
    devices: Any,
    result: Any,
) -> None:
    config = configuration(data, tmp_path / "run", rounds=ROUNDS, **keys)
    grid = devices(config)
    serve(grid, config)
    assert read_config(tmp_path / "run" / "run.toml").evaluate_every == every
    for method in config.methods:
        _, _, rows, _ = result(config, method)
        assert sorted({row.round for row in rows if row.metric == "macro_f1"}) == tested
    exchanges = [round for _, kind, _, round in grid.asked if kind == MessageType.EVALUATE]
    assert set(exchanges) <= set(tested) and bool(exchanges) == ("fedavg" in config.methods)


def test_simulated_nodes_and_a_choice_among_rounds_test_all_of_them() -> None:
    common = read_config(None, {"method": "fedavg", "beside": ""})
    rounds = common.server_settings("fedavg").rounds
    assert rounds.evaluate_every == 0 and all(map(rounds.evaluated, (1, 2, 3)))
    assert evaluated_in_time(common, InMemoryGrid()).evaluate_every == 1  # type: ignore[arg-type]
    assert evaluated_in_time(common, object()).evaluate_every == 5  # type: ignore[arg-type]
    chosen = read_config(None, {"method": "fedavg", "beside": "", "best-by": "validation"})
    assert evaluated_in_time(chosen, object()).evaluate_every == 1  # type: ignore[arg-type]
