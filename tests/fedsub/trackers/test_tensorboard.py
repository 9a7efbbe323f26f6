"""Event files, read back by TensorBoard."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedsub.trackers.series import tracked
from fedsub.trackers.tensorboard import EventFiles
from fedsub_core import extras
from fedsub_core.errors import ConfigError, RunError
from fedsub_server.rundb import RunDatabase

from ..report.made_runs import PEOPLE, make_run, rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scores = {"fedavg": lambda r, i: 0.1 * r, "local": lambda r, i: 0.5}
    return make_run(tmp_path / "run", scores, rounds=4, done={"fedavg": 2})


def write(folder: Path, times: int = 1) -> None:
    files = EventFiles(folder)
    for _ in range(times):
        files.update(tracked(folder))
    files.close()


def read(folder: Path, method: str) -> EventAccumulator:
    # It reads all files of a folder, one after another.
    return EventAccumulator(str(folder / "tensorboard" / method)).Reload()


def points(events: EventAccumulator, name: str) -> dict[int, float]:
    found = events.Scalars(name)
    assert len({one.step for one in found}) == len(found)
    return {one.step: one.value for one in found}


def commit(folder: Path, round: int) -> None:
    with RunDatabase(folder / "fedavg" / "state.db") as database:
        database.commit(round, {}, list(rows(round, PEOPLE, lambda r, i: 0.1 * r)))


def test_tensorboard_reads_means_settings_and_times(folder: Path) -> None:
    write(folder)
    fedavg, _ = tracked(folder)
    events = read(folder, "fedavg")
    assert set(events.Tags()["scalars"]) == {one.name for one in fedavg.series}
    assert points(events, "people/macro_f1") == pytest.approx({1: 0.1, 2: 0.2})
    assert points(events, "bytes/up_sent") == {1: 2048, 2: 2048}
    for one in events.Scalars("people/loss"):
        assert one.wall_time == pytest.approx(fedavg.times[one.step])
    assert points(read(folder, "local"), "f1/class_1") == dict.fromkeys((1, 2, 3, 4), 0.5)
    settings = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"momentum" in settings and b"fedavg.tested" in settings and b"ann" not in settings


def test_once_more_leaves_one_copy_and_others_files(folder: Path) -> None:
    write(folder)
    (first,) = (folder / "tensorboard" / "fedavg").iterdir()
    other = first.with_name("events.out.tfevents.1.someone")
    other.write_bytes(b"")
    commit(folder, 3)
    write(folder, times=2)
    left = {path.name for path in (folder / "tensorboard" / "fedavg").iterdir()}
    assert len(left) == 2 and other.name in left and first.name not in left
    assert points(read(folder, "fedavg"), "people/macro_f1") == pytest.approx(
        {1: 0.1, 2: 0.2, 3: 0.3}
    )


def test_it_keeps_up_with_a_run_in_one_file_that_a_viewer_has_open(folder: Path) -> None:
    files = EventFiles(folder)
    files.update(tracked(folder))
    viewer = read(folder, "fedavg")
    for round in (3, 4):
        commit(folder, round)
        files.update(tracked(folder))
        seen = points(viewer.Reload(), "people/macro_f1")
        assert seen == pytest.approx({r: 0.1 * r for r in range(1, round + 1)})
    # Written anew beside it, as after an interruption: what was read is forgotten, not doubled.
    write(folder)
    assert len(points(viewer.Reload(), "people/macro_f1")) == 4
    files.close()


def test_interrupted_a_file_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = EventFiles(folder)
    found = tracked(folder)
    with monkeypatch.context() as broken:
        broken.setattr(EventFiles, "_add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            files.update(found)
    files.update(found)
    files.close()
    assert len(points(read(folder, "fedavg"), "people/macro_f1")) == 2


def test_what_cannot_be_written_or_is_not_installed_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tensorboard").write_text("in the way")
    with pytest.raises(RunError, match=r"tensorboard/fedavg: cannot be written"):
        write(folder)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'fedsub\[tensorboard\]'"):
        EventFiles(folder)
