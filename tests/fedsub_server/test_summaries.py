"""A method's run in numbers, worked out by hand, by numpy and by scipy."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedsub_core.data.held_out import unseen_clients
from fedsub_core.metrics import MetricRow
from fedsub_server.remarks import left_out, remarks
from fedsub_server.results import method_summaries
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import OverClients, summarise, summarise_method

FEDSUB = [0.5, 0.6, 0.7, 0.8, 0.9]
LOCAL = [0.6, 0.6, 0.65, 0.7, 0.95]


def test_summarise_by_hand() -> None:
    # t(0.975, 4) = 2.776445; s = 0.1581139; s / sqrt(5) = 0.0707107.
    found = summarise(FEDSUB)
    assert found.n == 5
    assert found.mean == pytest.approx(0.7) and found.p10 == pytest.approx(0.54)
    assert found.ci95 == pytest.approx(2.776445 * 0.0707107, rel=1e-6)
    # All clients there are, not a sample of them: the squares' mean is 0.02.
    assert found.std == pytest.approx(0.02**0.5)
    assert (found.min, found.max) == (0.5, 0.9)


@pytest.mark.parametrize("n", [5, 30, 200])
def test_summarise_equals_scipy(n: int) -> None:
    x = np.random.default_rng(n).random(n)
    low, high = stats.t.interval(0.95, n - 1, loc=x.mean(), scale=stats.sem(x))
    found = summarise(x.tolist())
    assert found.ci95 is not None
    assert (found.mean - found.ci95, found.mean + found.ci95) == pytest.approx((low, high))
    assert found.p10 == pytest.approx(np.percentile(x, 10))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_fewer_than_five_have_a_mean_and_no_interval(n: int) -> None:
    found = summarise([0.2, 0.9, 0.5, 0.7][:n])
    assert found.ci95 is None and found.n == n and 0.2 < found.mean < 0.9


def test_one_client_has_no_interval_and_none_is_refused() -> None:
    assert summarise([0.25]) == OverClients(0.25, None, 0.25, 1, 0.0, 0.25, 0.25)
    with pytest.raises(ValueError, match="got no values"):
        summarise([])


def test_a_diverged_client_shows() -> None:
    found = summarise([0.5, math.nan])
    assert all(math.isnan(value) for value in (found.mean, found.std, found.min, found.max))


def test_a_methods_numbers(run: Path) -> None:
    local, fedsub = method_summaries(run)[::-1]
    assert (fedsub.method, local.method) == ("fedsub", "local")
    assert (fedsub.rounds, fedsub.evaluated_round, fedsub.clients) == (4, 4, 5)
    assert fedsub.macro_f1 == pytest.approx(0.7)
    assert fedsub.macro_f1_ci95 == pytest.approx(0.1963243, rel=1e-5)
    assert fedsub.macro_f1_p10 == pytest.approx(0.54)
    assert fedsub.macro_f1_std == pytest.approx(0.02**0.5)
    assert (fedsub.macro_f1_min, fedsub.macro_f1_max) == (0.5, 0.9)
    assert fedsub.accuracy == pytest.approx(0.3)
    assert fedsub.accuracy_std == pytest.approx(0.02**0.5)
    assert (fedsub.accuracy_min, fedsub.accuracy_max) == pytest.approx((0.1, 0.5))
    assert fedsub.sparsity_weights is fedsub.sparsity_all is None, "it prunes nothing"
    assert fedsub.weighted_f1 == pytest.approx(0.35)
    assert fedsub.loss == pytest.approx(1.4)
    # 500 * (1 + mean of 0..4 + 10 * mean of 1..4)
    assert fedsub.bytes_up == pytest.approx(500 * 28)
    assert fedsub.full_models_up_sent == pytest.approx(14)
    assert fedsub.full_models_up_flower == pytest.approx(14.1)
    assert fedsub.full_models_up_papers == pytest.approx(56)
    assert fedsub.full_models_up_union == pytest.approx(21)
    # What is received to train and what to be tested are told apart.
    assert fedsub.full_models_down_sent == pytest.approx(28)
    assert fedsub.full_models_evaluation_sent == pytest.approx(7)
    assert fedsub.full_models_down_flower is fedsub.full_models_evaluation_flower is None
    # Clients 0 and 4 are worse than alone; client 1 is equal, not worse.
    assert fedsub.worse_than_twin == pytest.approx(2 / 5)
    assert (local.worse_than_twin, local.bytes_up) == (None, 0.0)
    assert fedsub.seconds > 0


@pytest.mark.parametrize(
    ("config", "tested", "encoding"),
    [
        ({"fedsub.tested": "received"}, "received", "float32 up and down"),
        ({"upload-encoding": "delta,int8"}, "trained", "delta,int8 up, float32 down"),
        ({"ditto.tested": "received", "download-encoding": "int8"}, "trained",
         "float32 up, int8 down"),
    ],
)  # fmt: skip
def test_what_was_tested_and_how_messages_were_encoded(
    write: Any, config: dict[str, str], tested: str, encoding: str
) -> None:
    plain = {"upload-encoding": "float32", "download-encoding": "float32"}
    path = write("fedsub", {4: FEDSUB}, config=plain | {"fedsub.tested": "trained"} | config)
    with RunDatabase(path) as db:
        found = summarise_method(db, None)
    assert (found.tested, found.encoding) == (tested, encoding)


def test_without_local_there_is_no_share_worse_than_it(write: Any) -> None:
    with RunDatabase(write("fedsub", {4: FEDSUB})) as db:
        assert summarise_method(db, None).worse_than_twin is None


def test_methods_are_compared_in_the_last_round_both_evaluated(tmp_path: Path, write: Any) -> None:
    write("local", {2: LOCAL, 4: [0.0] * 5})
    write("fedsub", {2: FEDSUB, 3: FEDSUB}, rounds=3)
    assert method_summaries(tmp_path)[0].worse_than_twin == pytest.approx(2 / 5)


def test_a_client_without_test_samples_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "fedsub" / "state.db"
    path.parent.mkdir()
    with RunDatabase(path, {}) as db:
        rows = [
            MetricRow(1, client, None, metric, value)
            for client, f1, examples in (("a", 0.5, 3), ("b", math.nan, 0), ("c", 0.75, 9))
            for metric, value in (
                ("macro_f1", f1),
                ("accuracy", f1),
                ("loss", f1),
                ("examples", examples),
            )
        ]
        db.commit(1, {}, rows)
        found = summarise_method(db, None)
    assert (found.clients, found.macro_f1, found.loss) == (2, 0.625, 0.625)
    assert (found.people, found.left_out, found.diverged) == (3, "b (no test samples)", "")
    assert (found.macro_f1_std, found.accuracy_std, found.accuracy_min) == (0.125, 0.125, 0.5)


def test_whoever_is_not_in_the_numbers_is_named_with_the_reason(tmp_path: Path) -> None:
    """`d` never answered; `c` did in round 1 alone; the loss of `b` is no number."""
    path = tmp_path / "fedsub" / "state.db"
    path.parent.mkdir()
    with RunDatabase(path, {f"data: client {name}": "00" for name in "abcd"}) as db:
        for round, people in ((1, "abc"), (2, "ab")):
            rows = [
                MetricRow(round, client, None, metric, value)
                for client in people
                for metric, value in (
                    ("macro_f1", 0.5),
                    ("loss", math.nan if client == "b" else 1.0),
                    ("examples", 3),
                )
            ]
            db.commit(round, {}, rows)
        found = summarise_method(db, None)
    assert (found.clients, found.people, found.diverged) == (2, 4, "b")
    assert found.left_out == (
        "c (did not answer in round 2, last tested in round 1); "
        "d (never tested: turned away, or it did not answer)"
    )
    assert remarks([found, replace(found, method="local")]) == [
        f"Not in the numbers of fedsub, local: {found.left_out}.",
        "The loss of fedsub, local is not a number for b: training diverged, and scores of such "
        "models mean nothing. Lower lr.",
    ]


def test_of_people_held_out_by_capacity_only_they_can_be_missing(tmp_path: Path) -> None:
    sizes = {f"p{i}": 0.25 if i in (3, 7) else 1.0 for i in range(10)}
    path = tmp_path / "heterofl" / "state.db"
    path.parent.mkdir()
    told = {"split": "unseen", "unseen-share": 0.2, "seed": 7, "unseen-by": "smallest"}
    with RunDatabase(path, told | {f"data: client {name}": "00" for name in sizes}) as db:
        rows = [MetricRow(1, name, None, "capacity", size) for name, size in sizes.items()]
        rows += [MetricRow(1, "p3", None, m, v) for m, v in (("macro_f1", 0.5), ("examples", 3))]
        db.commit(1, {}, rows)
        absent = left_out(db, told, ["p3"], 1)
    assert absent == {"p7": "never tested: turned away, or it did not answer"}


@pytest.mark.parametrize("by", ["people", "capacity", "smallest"])
def test_where_all_held_out_were_forgotten_nobody_is_missing(tmp_path: Path, by: str) -> None:
    path = tmp_path / "heterofl" / "state.db"
    path.parent.mkdir()
    told = {"split": "unseen", "unseen-share": 0.5, "seed": 7, "unseen-by": by}
    with RunDatabase(path, told | {"data: client a": "00"}) as db:
        db.commit(1, {}, [MetricRow(1, "a", None, "capacity", 1.0)])
        assert left_out(db, told, [], 1) == {}


def test_with_people_held_out_only_they_can_be_missing(tmp_path: Path) -> None:
    people = [f"p{i}" for i in range(10)]
    (first, second) = unseen_clients(people, 0.2, 7)
    path = tmp_path / "fedsub" / "state.db"
    path.parent.mkdir()
    told = {"split": "unseen", "unseen-share": 0.2, "seed": 7}
    with RunDatabase(path, told | {f"data: client {name}": "00" for name in people}) as db:
        rows = [MetricRow(1, first, None, m, v) for m, v in (("macro_f1", 0.5), ("examples", 3))]
        db.commit(1, {}, rows)
        found = summarise_method(db, None)
    assert (found.clients, found.people) == (1, 2) and found.left_out.startswith(f"{second} (never")


def test_sparsity_is_the_newest_that_the_server_reports(tmp_path: Path) -> None:
    path = tmp_path / "sparse" / "state.db"
    path.parent.mkdir()
    with RunDatabase(path, {}) as db:
        for round, (weights, whole) in enumerate([(0.0, 0.0), (0.5, 0.4), (0.75, 0.6)], start=1):
            rows = [
                MetricRow(round, "", None, "sparsity_weights", weights),
                MetricRow(round, "", None, "sparsity_all", whole),
                MetricRow(round, "", 1, "sparsity_weights", 0.9),  # of a part of the run
                MetricRow(round, "z", None, "sparsity_weights", 0.9),
            ]
            db.commit(round, {}, rows if round < 3 else rows[2:])
        found = summarise_method(db, None)
    assert (found.sparsity_weights, found.sparsity_all) == (0.5, 0.4)


def test_a_run_that_was_not_evaluated_yet(tmp_path: Path, write: Any) -> None:
    write("fedsub", {})
    (found,) = method_summaries(tmp_path)
    assert (found.rounds, found.evaluated_round, found.clients) == (4, None, 0)
    assert found.macro_f1 is found.macro_f1_ci95 is found.loss is found.weighted_f1 is None
    assert found.macro_f1_std is found.macro_f1_min is found.accuracy is found.accuracy_max is None
    assert found.bytes_up == pytest.approx(14_000)
