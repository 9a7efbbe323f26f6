"""Predictions of a run's tested samples: the metrics that the run reports follow from them."""

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import f1_score

import fedsub
from fedsub.cli import cli
from fedsub.predictions.files import read_predictions
from fedsub.predictions.scores import BINS, auroc, ece, kappa, r2, reliability, score_named, scored
from fedsub.predictions.tested import RunSamples
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import ConfigError, RunError

METHODS = ("ditto", "fedsub-ridge", "fedsub-gated", "fedavg")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> fedsub.Run:
    """Return a run of several methods that holds a validation part and unlabelled samples."""
    beside = ",".join(METHODS[1:])
    return fedsub.run(
        "watch", METHODS[0], rounds=4, beside=beside, progress=False, epochs=1,
        best_by="validation", unlabelled=0.2, out=str(tmp_path_factory.mktemp("runs")),
    )  # fmt: skip


def test_the_runs_own_metrics_follow_from_its_predictions(run: fedsub.Run) -> None:
    people = run.people.set_index(["method", "person"])
    found = run.predictions
    assert set(found["method"]) == set(METHODS)
    for key, rows in found.groupby(["method", "person"]):
        macro = f1_score(rows["class"], rows["predicted"], average="macro")
        assert macro == pytest.approx(people.loc[key, "macro_f1"], abs=1e-9)
        true = [row[f"probability {row['class']}"] for _, row in rows.iterrows()]
        assert -np.log(true).mean() == pytest.approx(people.loc[key, "loss"], rel=1e-4)
        assert len(rows) == people.loc[key, "examples"]


def test_parts_are_those_of_the_run(run: fedsub.Run) -> None:
    splits = run.splits
    assert set(splits["part"]) == {"training", "validation", "test", "unused"}
    notes = json.loads((run.folder / "data.json").read_text("utf-8"))["splits"]
    for person, note in notes.items():
        counts = splits[splits["person"] == person]["part"].value_counts()
        assert counts["test"] == note["testing"] and counts["training"] == note["training"]
        assert counts["validation"] == note["validation"] and counts["unused"] == note["neither"]
    tested = splits[splits["part"] == "test"][["person", "index", "class", "t"]]
    one = run.predictions.query("method == 'ditto'")
    both = one.merge(tested, on=["person", "index"], suffixes=("", " of parts"))
    assert len(both) == len(one) == len(tested)
    assert (both["class"] == both["class of parts"]).all() and (
        both["t"] == both["t of parts"]
    ).all()


def test_files_hold_the_predictions_and_the_report_shows_them(
    run: fedsub.Run, tmp_path: Path
) -> None:
    cli_run = CliRunner().invoke(cli, ["predictions", str(run.folder), "--json"])
    assert cli_run.exit_code == 0, cli_run.output
    path = run.folder / "predictions.csv"
    for there, one in zip(
        read_predictions(path), RunSamples(run.folder).predictions(), strict=True
    ):
        assert (there.person, there.method, there.round) == (one.person, one.method, one.round)
        np.testing.assert_array_equal(there.probabilities, one.probabilities)
        np.testing.assert_array_equal(there.index, one.index)
        np.testing.assert_array_equal(there.y, one.y)
    page = run.report.path.read_text("utf-8")
    assert 'id="calibration"' in page and (run.folder / "figures" / "reliability.png").is_file()
    arguments = ["predictions", str(run.folder), "--out", str(tmp_path), "--parquet"]
    arguments += ["--method", "ditto"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    found = duckdb.sql(f"select distinct person from '{tmp_path}/predictions.parquet'")
    assert found is not None
    assert {one for (one,) in found.fetchall()} == set(run.persons())


def test_scores_of_ones_own_are_a_function(run: fedsub.Run, tmp_path: Path) -> None:
    def wrong(y: np.ndarray, probabilities: np.ndarray) -> float:
        return float((probabilities.argmax(1) != y).mean())

    scores = run.scores("ece", wrong).set_index(["method", "person"])
    accuracy = run.people.set_index(["method", "person"])["accuracy"]
    np.testing.assert_allclose(1 - scores["wrong"], accuracy.loc[scores.index], atol=1e-9)
    own = tmp_path / "own.py"
    own.write_text(
        "def none(y, p):\n    return 'much'\n\n\ndef bent(y, p):\n    y[:] = 0\n    return 0\n"
    )
    (one,) = (RunSamples(run.folder).predictions(["ditto"]).__next__(),)
    before = one.y.copy()
    assert scored(one, [score_named(f"{own}:bent")]) == {"bent": 0.0}
    np.testing.assert_array_equal(one.y, before)
    with refused(ConfigError, "none", one.person, got=["ValueError"]):
        scored(one, [score_named(f"{own}:none")])
    with refused(ConfigError, got=["accuracy"], expected=["auroc"]):
        score_named("accuracy")


def test_data_that_changed_since_are_refused(run: fedsub.Run, tmp_path: Path) -> None:
    federation = fedsub.federation("watch")
    person, data = next(iter(federation.clients.items()))
    x = data.x.copy()
    x[0, 0, 0] += 1
    clients = {**federation.clients, person: replace(data, x=x)}
    federation = replace(federation, clients=clients)
    write_federation(tmp_path / "data", federation)
    changed = fedsub.load(run.folder, data=str(tmp_path / "data"))
    assert isinstance(changed, fedsub.Run)
    with refused(RunError, got=[person]):
        _ = changed.predictions
    with refused(RunError, got=["nobody"], expected=["ditto"]):
        next(RunSamples(run.folder).predictions(["nobody"]))


def test_a_model_that_is_away_is_named(run: fedsub.Run) -> None:
    path = next((run.folder / "fedavg" / "models").glob("*.safetensors"))
    kept = path.read_bytes()
    path.unlink()
    try:
        with refused(RunError, path.stem):
            list(RunSamples(run.folder).predictions(["fedavg"]))
    finally:
        path.write_bytes(kept)


@pytest.mark.parametrize("value", [61.3, 0.1, 1e6 + 0.1])
def test_of_equal_values_there_is_no_r2(value: float) -> None:
    y = np.full(7, value)
    assert np.isnan(r2(y, np.zeros((7, 1), np.float32)))
    y[0] += 1
    assert r2(y, y[:, None]) == 1


def test_calibration_of_known_probabilities() -> None:
    y = np.array([0, 0, 0, 1])
    sure = np.array([[0.8, 0.2]] * 4, np.float32)  # right three times of four
    assert ece(y, sure) == pytest.approx(0.05)
    counts = reliability(y, sure)[:, 0]
    assert counts.sum() == 4 and counts[int(0.8 * BINS)] + counts[int(0.8 * BINS) - 1] == 4
    assert auroc(y, sure) == 0.5 and auroc(y, np.eye(2, dtype=np.float32)[y]) == 1
    alone = np.zeros(3, np.int64)
    assert np.isnan(auroc(alone, sure[:3])) and np.isnan(kappa(alone, sure[:3]))
