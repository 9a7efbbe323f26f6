"""Runs in MLflow, read back by its client.

Most in a folder of files: it is made at once, and keeps what is logged twice, which a database
hides.
"""

from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from fedsub.testing.refusals import refused
from fedsub.trackers.mlflow import EXPERIMENT, FOLDER_TAG, MlflowRuns
from fedsub.trackers.series import tracked
from fedsub_core import extras
from fedsub_core.errors import ConfigError, RunError
from fedsub_server.rundb import RunDatabase

from ..report.made_runs import PEOPLE, make_run, rows

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload``:DeprecationWarning")


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv(EXPERIMENT, raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return (tmp_path / "mlflow").as_uri()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scores = {"fedavg": lambda r, i: 0.1 * r, "local": lambda r, i: 0.5}
    return make_run(tmp_path / "run", scores, rounds=4, done={"fedavg": 2})


def commit(folder: Path, *rounds: int) -> None:
    with RunDatabase(folder / "fedavg" / "state.db") as database:
        for round in rounds:
            database.commit(round, {}, list(rows(round, PEOPLE, lambda r, i: 0.1 * r)))


def runs(uri: str, experiment: str = "run") -> dict[str, Any]:
    """Return the experiment's runs by name, none twice."""
    client: Any = MlflowClient(tracking_uri=uri)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    assert len({run.info.run_name for run in found}) == len(found)
    return {run.info.run_name: run for run in found}


def history(uri: str, run: Any, name: str) -> dict[int, Any]:
    """Return a metric's points by round, none twice."""
    found = MlflowClient(tracking_uri=uri).get_metric_history(run.info.run_id, name)
    assert len({point.step for point in found}) == len(found)
    return {point.step: point for point in found}


def test_mlflow_reads_means_settings_times_and_ends(folder: Path, uri: str) -> None:
    MlflowRuns(uri, "run").update(tracked(folder))
    fedavg, local = tracked(folder)
    found = runs(uri)
    assert found.keys() == {"fedavg", "local"}
    assert {n: run.info.status for n, run in found.items()} == {
        "fedavg": "RUNNING",
        "local": "FINISHED",
    }
    for one in (fedavg, local):
        run = found[one.method]
        assert run.data.metrics.keys() == {series.name for series in one.series}
        assert run.data.params == {key: str(value) for key, value in one.settings.items()}
        for series in one.series:
            logged = history(uri, run, series.name)
            assert list(logged) == series.rounds
            assert [point.value for point in logged.values()] == pytest.approx(series.values)
            for round, point in logged.items():
                assert point.timestamp == pytest.approx(1000 * one.times[round], abs=1)
        assert run.data.tags[FOLDER_TAG] == "run"
    assert found["local"].info.end_time == pytest.approx(1000 * local.times[4], abs=1)
    files = "".join(p.read_text() for p in Path(uri.removeprefix("file://")).rglob("*.yaml"))
    assert "fedavg" in files and PEOPLE[0] not in files


def test_once_more_adds_only_what_is_new(folder: Path, uri: str) -> None:
    for _ in range(2):
        MlflowRuns(uri, "run").update(tracked(folder))
    first = runs(uri)
    assert list(history(uri, first["fedavg"], "people/loss")) == [1, 2]
    # One that follows the run, and one that begins later.
    following = MlflowRuns(uri, "run")
    following.update(tracked(folder))
    commit(folder, 3)
    following.update(tracked(folder))
    commit(folder, 4)
    MlflowRuns(uri, "run").update(tracked(folder))
    again = runs(uri)
    assert {n: r.info.run_id for n, r in again.items()} == {
        n: r.info.run_id for n, r in first.items()
    }
    for name in again["fedavg"].data.metrics:
        assert list(history(uri, again["fedavg"], name)) == [1, 2, 3, 4]
    assert again["fedavg"].info.status == "FINISHED"


def test_a_run_that_is_given_more_rounds_is_running_again(tmp_path: Path, uri: str) -> None:
    folder = make_run(tmp_path / "run", {"fedavg": lambda r, i: 0.5}, rounds=2)
    MlflowRuns(uri, "run").update(tracked(folder))
    text = (folder / "run.toml").read_text()
    (folder / "run.toml").write_text(text.replace("rounds = 2", "rounds = 3"))
    MlflowRuns(uri, "run").update(tracked(folder))
    assert runs(uri)["fedavg"].info.status == "RUNNING"
    commit(folder, 3)
    MlflowRuns(uri, "run").update(tracked(folder))
    assert runs(uri)["fedavg"].info.status == "FINISHED"


def test_broken_off_anywhere_it_goes_on_without_a_gap_or_a_copy(
    folder: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(folder, 3, 4)
    monkeypatch.setattr("fedsub.trackers.mlflow._MOST_METRICS", 7)
    whole, broken = MlflowRuns(uri, "run"), 0

    def breaking(times: int) -> None:
        log = MlflowClient.log_batch
        left = iter(range(times))

        def log_batch(*args: Any, **keys: Any) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            log(*args, **keys)

        with monkeypatch.context() as patched:
            patched.setattr(MlflowClient, "log_batch", log_batch)
            whole.update(tracked(folder))

    while True:
        try:
            breaking(2)
        except KeyboardInterrupt:
            broken += 1
        else:
            break
    assert broken > 3
    for one in tracked(folder):
        for series in one.series:
            assert list(history(uri, runs(uri)[one.method], series.name)) == series.rounds


def test_experiments_are_named_by_mlflows_own_variable(
    folder: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EXPERIMENT, "thesis")
    MlflowRuns(uri, "run").update(tracked(folder))
    assert runs(uri, "thesis").keys() == {"run/fedavg", "run/local"}
    client: Any = MlflowClient(tracking_uri=uri)
    client.delete_experiment(client.get_experiment_by_name("thesis").experiment_id)
    with refused(RunError, "'thesis'", "deleted"):
        MlflowRuns(uri, "run")


def test_what_mlflow_says_no_to_is_said(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    with refused(RunError, "sqlite:///mlflow.db", "fedsub report FOLDER --mlflow"):
        MlflowRuns(uri, "run")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'fedsub\[mlflow\]'"):
        MlflowRuns(uri, "run")


@pytest.mark.slow
def test_a_database_as_well(folder: Path, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    for rounds in ((), (3, 4)):
        commit(folder, *rounds)
        MlflowRuns(uri, "run").update(tracked(folder))
    found = runs(uri)
    for one in tracked(folder):
        assert found[one.method].info.status == "FINISHED"
        for series in one.series:
            assert list(history(uri, found[one.method], series.name)) == series.rounds
