"""Over-selection, late uploads and no rounds at all, on people who are in time or late."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.fleet.habits import DAY
from fedsub.testing.runs import assert_equal
from fedsub_core.metrics import MetricRow
from strategies.rounds.server_half import State

from .conftest import ALWAYS, MakeFleet
from .test_grid import Rows, counted, run

EVERYBODY = {"clients-per-round": 3, "rounds": 3, "hidden": "8", "model": "mlp"}
SLOW = {2: 60.0}


def rounds_of(rows: Rows, client: str, metric: str) -> list[int]:
    return [row.round for row in rows if (row.client, row.metric) == (client, metric)]


@pytest.mark.parametrize("method", ["fedavg", "fedsub", "fedsub-ridge"])
def test_where_all_are_in_time_nothing_differs_from_rounds(fleet: MakeFleet, method: str) -> None:
    keys: dict[str, Any] = {**EVERYBODY, "method": method}
    if method == "fedsub-ridge":
        keys = {k: v for k, v in keys.items() if k not in ("hidden", "model")}
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, **keys)
    plain, of_plain, _ = run(config, grid)
    assert plain.state is not None
    for more in ({"late-hours": 1.0}, {"late-hours": 1.0, "asynchronous": True}):
        config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, **keys, **more)
        other, rows, _ = run(config, grid)
        assert other.state is not None
        assert_equal(dict(other.state), dict(plain.state))
        assert not counted(rows, "late_upload")
        scores = [row for row in of_plain if row.metric == "macro_f1"]
        assert [row for row in rows if row.metric == "macro_f1"] == scores


def test_a_round_ends_with_enough_and_the_late_count_in_the_next(fleet: MakeFleet) -> None:
    config, grid = fleet(
        ALWAYS,
        ALWAYS,
        ALWAYS,
        work=SLOW,
        **{"clients-per-round": 2, "ask": 1.5, "late-hours": 1.0, "rounds": 12},
    )
    strategy, rows, ends = run(config, grid)
    assert ends[0] < 25, "nobody waits for the slow one"
    late = [row for row in rows if row.metric == "late_upload"]
    assert late and {row.client for row in late} == {"p3"} and all(row.value >= 1 for row in late)
    assert counted(rows, "missing_replies") == {}
    assert counted(rows, "resting") == {}, "who was not needed has failed nobody"
    # Sums are sums whenever they come.
    assert strategy.state is not None
    assert strategy.half.heard_of(strategy.state) == ["p1", "p2", "p3"]


def test_without_late_hours_a_late_upload_is_counted_and_not_used(fleet: MakeFleet) -> None:
    keys = {"clients-per-round": 2, "ask": 1.5, "rounds": 12}
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, work=SLOW, **keys)
    strategy, rows, _ = run(config, grid)
    assert counted(rows, "late_replies").keys() == {"p3"} and not counted(rows, "late_upload")
    assert strategy.state is not None
    assert strategy.half.heard_of(strategy.state) == ["p1", "p2"]


def test_without_rounds_nobody_is_asked_who_still_works(fleet: MakeFleet) -> None:
    config, grid = fleet(
        ALWAYS,
        ALWAYS,
        ALWAYS,
        work=SLOW,
        **EVERYBODY
        | {"clients-per-round": 2, "ask": 1.5, "late-hours": 1.0, "asynchronous": True}
        | {"rounds": 12, "evaluate-every": 12, "method": "fedavg"},
    )
    strategy, rows, ends = run(config, grid)
    ages = {row.client: row.value for row in rows if row.metric == "late_upload"}
    assert ages.get("p3", 0) >= 1 and ends[-2] < 11 * 40
    uploads = rounds_of(rows, "p3", "bytes_up_sent")
    assert grid.worked["p3"] <= len(uploads) + 2, "the handshake, and what it still works on"
    assert strategy.state is not None
    assert all(torch.isfinite(tensor).all() for tensor in strategy.state.values())


def test_who_is_on_a_train_is_late_and_not_lost(fleet: MakeFleet) -> None:
    """Its node is gone while it works: asked for it then, the link would forget its answer."""
    config, grid = fleet(
        ALWAYS,
        ALWAYS,
        [(0.0, 12.0), (900.0, 90000.0)],
        **{"clients-per-round": 2, "ask": 1.5, "late-hours": 2.0, "rounds": 90},
    )
    _, rows, _ = run(config, grid)
    assert rounds_of(rows, "p3", "late_upload"), counted(rows, "late_replies")


@pytest.mark.parametrize(("hours", "rests"), [(0.0, [4]), (21.0, [])])
def test_a_rest_ends_with_the_night(fleet: MakeFleet, hours: float, rests: list[int]) -> None:
    """Who is silent from the second round on rests in the fourth, unless a day has passed."""
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, end=9 * DAY, rounds=5)
    strategy, rows = build_strategy(config, config.method), list[MetricRow]()

    def after(round: int, state: State, of_round: Rows) -> None:
        rows.extend(of_round)
        grid.clock.skip(grid.clock.now + 3600 * hours)
        grid.people = {**grid.people, "p3": replace(grid.people["p3"], work=1e7)}

    strategy.on_round = after  # type: ignore[assignment]
    strategy.start(grid)
    assert rounds_of(rows, "p3", "resting") == rests
    assert rounds_of(rows, "p3", "missing_replies") == [r for r in range(2, 6) if r not in rests]
