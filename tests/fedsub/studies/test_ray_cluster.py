"""Studies on a real Ray cluster of two nodes: the local engine's bytes, lost nodes, refusals."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub.engines import ray_cluster
from fedsub.studies.engine import Engine, federation_of
from fedsub.studies.kept_runs import RUNS
from fedsub.studies.local_engine import local_engine
from fedsub.studies.ray_engine import (
    ATTEMPTS,
    LOCK,
    PREFIX,
    locked,
    ray_engine,
    sweep,
    train_on_node,
)
from fedsub.studies.runner import Stage, run_study, run_tasks
from fedsub.studies.study import Entry, Study, Task, task_of
from fedsub.studies.study_file import read_study
from fedsub.studies.study_results import finished
from fedsub.studies.study_tables import write_tables
from fedsub.testing.runs import people
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.version import build

from ..ray_nodes import Nodes
from .interrupting import started

FEDSUB = str(Path(sys.executable).with_name("fedsub"))
STUDY = """
title = "Small"
seeds = [0, 1]
[run]
data = "people"
rounds = 2
[methods]
local = {}
fedavg = {}
ditto = {}
[tune]
lr = [0.01, 0.05]
"""
#: Longer runs, and nothing tuned.
LONG = STUDY.replace("rounds = 2", "rounds = 12").partition("[tune]")[0]
#: One run that does not end while a test lasts, and two short ones.
ENDLESS = """
seeds = [0]
[run]
data = "people"
[vary]
rounds = [20000, 3, 2]
[methods]
local = {}
"""
#: What must be the local engine's, byte for byte.
SAME = ("tables.md", "runs.csv", "people.csv", "chosen.json")


def nothing(stage: Stage) -> None:
    """Tell nobody how far it is."""


def written(folder: Path, text: str = STUDY) -> Path:
    """Write a study and its data."""
    write_federation(folder / "people", people(samples=20))
    (folder / "small.toml").write_text(text)
    return folder / "small.toml"


def ended(study: Study, out: Path, engine: Engine) -> dict[str, bytes]:
    """Run a study; return its tables, and of its runs what tells no times, by name."""
    out.mkdir()
    write_tables(study, out, finished(study, out, run_study(study, out, engine, nothing)))
    runs = (path for path in (out / RUNS).rglob("*") if path.is_file())
    files = [*(out / name for name in SAME), *runs]
    timed = {"state.db", "summary.json", "seconds"}
    return {
        str(path.relative_to(out)): b"" if path.name in timed else path.read_bytes()
        for path in files
    }


def trained_on(node: Any) -> list[int]:
    """Return the processes that train a run on a node now."""
    (raylet,) = node.all_processes["raylet"]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            title = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == raylet.process.pid and title.startswith(b"ray::train_on_node"):
            found.append(int(process.name))
    return found


def wait_until(what: Callable[[], object], study: subprocess.Popen[str] | None = None) -> None:
    """Wait for what must come within a minute, and while a study runs if one is given."""
    until = time.monotonic() + 60
    while not what():
        assert study is None or study.poll() is None, study.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def study_of(nodes: Nodes, file: Path, out: Path) -> list[str]:
    """Return the command `fedsub compare` on the cluster."""
    command = [FEDSUB, "compare", str(file), "--out", str(out)]
    return [*command, "--engine", "ray", "--ray-address", nodes.address]


@pytest.mark.slow
def test_a_study_ends_in_the_bytes_of_the_local_engine(nodes: Nodes, tmp_path: Path) -> None:
    study = read_study(written(tmp_path))
    expected = ended(study, tmp_path / "local", local_engine(2))
    assert sum(name.endswith("run.toml") for name in expected) == 3 * (2 + 2)
    # Nodes have no use for the data's folder: what this process has read is sent.
    federation_of(str(study.run["data"]))
    shutil.rmtree(tmp_path / "people")
    (tmp_path / "people").mkdir()  # a study looks whether it is there
    with ray_engine(nodes.address, None) as engine:
        assert ended(study, tmp_path / "ray", engine) == expected
    assert not list(nodes.place.glob("fedsub-*")), "runs left files on their nodes"


@pytest.mark.slow
@pytest.mark.release
def test_failed_runs_are_named_as_by_the_local_engine_and_lost_ones_are_repeated_a_few_times(
    nodes: Nodes, tmp_path: Path
) -> None:
    class Deadly(Task):
        """Ends the process that unpacks it."""

        def __reduce__(self) -> tuple[Any, ...]:
            return os._exit, (1,)

    study = read_study(written(tmp_path))
    good = [task_of(study, entry, (), 0, {}) for entry in study.entries[:2]]
    bad = task_of(study, Entry("deep", "fedper", {"head-layers": 9}), (), 0, {})
    last = task_of(study, study.entries[2], (), 0, {})
    deadly = Deadly(last.entry, last.cell, last.config)
    away = replace(last, config=replace(last.config, data=str(tmp_path / "gone")))

    def failure(engine: Engine, tasks: list[Task]) -> dict[str, str]:
        failed = run_tasks(tasks, out, engine, "runs", nothing)
        assert len(list(out.glob("runs/*/summary.json"))) == 2
        return failed

    out = tmp_path / "local"
    expected = failure(local_engine(1), [*good, bad])
    assert list(expected) == [bad.name] and "head: got 9 layers" in expected[bad.name]
    out = tmp_path / "ray"
    with ray_engine(nodes.address, None) as engine:
        assert failure(engine, [*good, bad]) == expected
        lost = failure(engine, [*good, deadly, away])
    assert list(lost) == [away.name, deadly.name] and "no such folder" in lost[away.name]
    assert f"lost {ATTEMPTS} times, at last: WorkerCrashedError" in lost[deadly.name]


@pytest.mark.slow
@pytest.mark.release
def test_no_more_runs_than_jobs_at_a_time(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read_study(written(tmp_path))
    tasks = [task_of(study, study.entries[0], (), seed, {}) for seed in (0, 1)]
    for jobs, expected in ((1, ["begun", "ended"] * 2), (2, ["begun"] * 2 + ["ended"] * 2)):
        happened: list[str] = []
        with ray_engine(nodes.address, jobs) as engine:
            begin: Callable[[Task], Any] = engine._begin  # type: ignore[attr-defined]

            def noted(task: Task, begin: Callable[[Task], Any] = begin) -> Any:
                happened.append("begun")  # noqa: B023
                return begin(task)

            monkeypatch.setattr(engine, "_begin", noted)
            for _ in engine(tasks, tmp_path / str(jobs), lambda task, round: None):
                happened.append("ended")
        assert happened == expected


@pytest.mark.slow
@pytest.mark.release
def test_a_run_whose_node_dies_is_repeated(nodes: Nodes, tmp_path: Path) -> None:
    file = written(tmp_path, LONG)
    expected = ended(read_study(file), tmp_path / "local", local_engine(2))
    with started(study_of(nodes, file, tmp_path / "ray")) as study:
        wait_until(lambda: trained_on(nodes.second), study)
        nodes.lose_second()
        out, err = study.communicate(timeout=300)
    assert study.returncode == 0, err
    assert err.count("was lost") == 1 and "raylet" not in out
    for name in SAME:
        assert (tmp_path / "ray" / name).read_bytes() == expected[name], name


@pytest.mark.slow
@pytest.mark.release
def test_an_interrupted_study_keeps_what_is_finished_and_leaves_nothing_on_its_nodes(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "ray" / RUNS
    with started(study_of(nodes, written(tmp_path, ENDLESS), runs.parent)) as study:
        # Not in a draft of a run's folder, which has a dot.
        wait_until(lambda: list(runs.glob("[!.]*/summary.json")), study)
        study.send_signal(signal.SIGINT)
        _, err = study.communicate(timeout=240)
    assert study.returncode == 130 and "Interrupted by SIGINT" in err
    wait_until(lambda: not trained_on(nodes.first) and not trained_on(nodes.second))
    # A run that Ray began and killed as its job ended could not clean up; the next one does.
    monkeypatch.setattr(tempfile, "tempdir", str(nodes.place))
    sweep()
    assert not list(nodes.place.glob("fedsub-*"))
    kept = list(runs.iterdir())
    assert len(kept) in (1, 2)
    assert all((run / "summary.json").is_file() for run in kept)


def test_what_a_killed_run_left_is_swept_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, alive, others = (tmp_path / f"{PREFIX}{n}" for n in ("dead", "alive", "new"))
    for folder in (dead, alive, others):
        (folder / "run").mkdir(parents=True)
        (folder / "run" / "state.db").write_bytes(b"much")
    locked(dead / LOCK).close()
    with locked(alive / LOCK):  # and the last is one that begins
        sweep()
        assert sorted(tmp_path.iterdir()) == sorted([alive, others])
    sweep()
    assert list(tmp_path.iterdir()) == [others]


@pytest.mark.slow
def test_nodes_with_another_version_are_refused(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "build", lambda: "9.9")
    said = rf"Ray node {socket.gethostname()}: got fedsub {re.escape(build())}, expected 9\.9"
    with pytest.raises(RunError, match=said), ray_engine(nodes.address, None):
        pass


def test_a_node_that_joined_later_is_asked_for_its_version(tmp_path: Path) -> None:
    study = read_study(written(tmp_path))
    task = task_of(study, study.entries[0], (), 0, {})
    said = train_on_node(task, people(samples=20), "9.9")
    assert isinstance(said, str)
    assert said.startswith(f"RunError: Ray node this one: got fedsub {build()}, expected 9.9")


@pytest.mark.parametrize(
    ("address", "said"),
    [(None, "Connection refused"), ("local", "expected HOST:PORT"), ("here", "Invalid address")],
)
def test_without_a_cluster_it_says_what_to_start(address: str | None, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    begun = time.monotonic()
    where = address or closed
    with (
        pytest.raises(RunError, match=rf"Ray cluster at {where}: .*{said}.*`ray start --head`"),
        ray_engine(where, None),
    ):
        pass
    assert time.monotonic() - begun < 30


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ConfigError, match=r"pip install 'fedsub\[ray\]'"),
        ray_engine("127.0.0.1:1", None),
    ):
        pass


def test_engines_and_addresses_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    call = ["compare", str(written(tmp_path)), "--out", str(tmp_path / "out")]
    bad = CliRunner().invoke(cli, [*call, "--engine", "spark"])
    assert bad.exit_code == 2 and "'spark' is not one of 'local', 'ray'" in bad.output
    refused = CliRunner().invoke(cli, [*call, "--ray-address", "127.0.0.1:1"])
    assert isinstance(refused.exception, ConfigError)
    assert "--ray-address needs --engine ray" in str(refused.exception)
    refused = CliRunner().invoke(cli, [*call, "--engine", "ray", "--ray-address", "127.0.0.1:1"])
    assert isinstance(refused.exception, RunError)
    assert not (tmp_path / "out").exists()
