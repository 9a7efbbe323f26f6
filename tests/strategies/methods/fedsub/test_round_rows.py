"""What FedSub makes known of a round: bytes of two plain encodings, clusters of each class."""

from dataclasses import replace

import pytest

from fedsub_core.metrics import MetricRow
from fedsub_core.turn import Turn

from ...finished_run import MakePeople, RunMethod
from .by_hand import strategy_of, upload_of

#: Of the model of `people`: 4 features, 3 classes.
WIDTHS = {"linear1": 5, "linear2": 129, "linear3": 513}


@pytest.mark.parametrize(("k_selection", "clusters"), [("dbi", 2.0), ("fixed:1", 1.0)])
def test_the_rows_by_hand(k_selection: str, clusters: float) -> None:
    """A row of linear1 has 2 weights and a bias, one of linear2 has 4 and one.

    Anna's classes 0 and 1 select 2 units of linear1 each, 3 different ones, and one each of
    linear2: the papers send 4 rows of 3 and 2 of 5 numbers, the union has 3 of 3 and 2 of 5.
    """
    anna = upload_of(
        [0, 1], 1.0, 7, {"linear1": {0: (0, 1), 1: (1, 2)}, "linear2": {0: (0,), 1: (2,)}}
    )
    ben = upload_of([1], 2.0, 8, {"linear1": {1: (3,)}, "linear2": {}})
    strategy = strategy_of(k_selection=k_selection)
    rounds = replace(strategy.half.settings.rounds, rounds=9, evaluate_every=3)
    strategy.half.settings = replace(strategy.half.settings, rounds=rounds)
    assert strategy.state is not None
    state, rows = strategy.half.aggregate(
        strategy.state, strategy.round(Turn(6, 9, 0)), {"anna": anna, "ben": ben}
    )
    places = state["clusters"][:, 1].tolist()
    assert len(set(places)) == clusters
    assert rows == [
        MetricRow(6, "anna", None, "bytes_up_papers", 4 * (4 * 3 + 2 * 5)),
        MetricRow(6, "anna", None, "bytes_up_union", 4 * (3 * 3 + 2 * 5)),
        MetricRow(6, "ben", None, "bytes_up_papers", 12),
        MetricRow(6, "ben", None, "bytes_up_union", 12),
        # Class 0 is anna's alone; nobody has class 2.
        MetricRow(6, "", 0, "clusters", 1.0),
        MetricRow(6, "", 1, "clusters", clusters),
        MetricRow(6, "anna", 0, "cluster", 0),
        MetricRow(6, "anna", 1, "cluster", places[0]),
        MetricRow(6, "ben", 1, "cluster", places[1]),
    ]
    assert all(row.value == value for row, value in zip(rows, (88, 76, 12, 12), strict=False))
    # Whoever sends nothing has no bytes, but stays in its clusters.
    _, later = strategy.half.aggregate(state, strategy.round(Turn(7, 9, 0)), {"ben": ben})
    assert [row.metric for row in later if row.client == "anna"] == []
    assert [row for row in later if row.metric == "clusters"] == [
        row._replace(round=7) for row in rows if row.metric == "clusters"
    ]
    # Who is with whom is said where everybody is tested.
    assert [row.metric for row in later if row.label is not None] == 2 * ["clusters"]
    # Of a class whose person is forgotten no cluster is left.
    _, later = strategy.half.aggregate(
        strategy.half.without(state, "anna"), strategy.round(Turn(9, 9, 0)), {"ben": ben}
    )
    assert [row[1:] for row in later if row.label is not None] == [
        ("", 1, "clusters", 1.0),
        ("ben", 1, "cluster", places[1]),
    ]


def test_they_are_among_the_runs_metrics(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(((0, 1, 2), (0, 1), (1, 2))), rounds=2)
    assert len(run.grid.uploads) == 6
    for key, upload in run.grid.uploads.items():
        papers = union = 0
        for layer, width in WIDTHS.items():
            union += 4 * width * len(upload.rows(layer))
            papers += 4 * width * int(upload.bits(f"{layer}.masks").sum())
        assert run.metric("bytes_up_union")[key] == union < upload.size
        assert run.metric("bytes_up_papers")[key] == papers > union
    found = {(r.round, r.label): r.value for r in run.rows if r.metric == "clusters"}
    assert found == {
        (round, y): run.states[round - 1]["clusters"][:, y].max().item() + 1
        for round in (1, 2)
        for y in range(3)
    }
    assert {r.client for r in run.rows if r.metric == "clusters"} == {""}
    assert len(found) == sum(r.metric == "clusters" for r in run.rows)


@pytest.mark.parametrize("name", ["fedavg", "local"])
def test_other_methods_have_none_of_them(
    people: MakePeople, run_method: RunMethod, name: str
) -> None:
    metrics = {row.metric for row in run_method(people(), name, rounds=1).rows}
    assert not metrics & {"bytes_up_papers", "bytes_up_union", "clusters"}
    assert {"bytes_up_sent", "bytes_down_sent", "training_loss"} <= metrics
