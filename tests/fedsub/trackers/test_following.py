"""Trackers beside a report that is watched."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fedsub.report.watching import watch_report
from fedsub.trackers.following import Trackers, trackers
from fedsub.trackers.series import Tracked
from fedsub_server.rundb import RunDatabase

from ..report.made_runs import PEOPLE, make_run, rows


class Rounds:
    """A tracker that keeps the last round it was told."""

    place = "here"

    def __init__(self) -> None:
        self.told: list[int] = []

    def update(self, found: Sequence[Tracked]) -> None:
        self.told.append(max(found[0].times))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", {"fedavg": lambda r, i: 0.5}, done={"fedavg": 1})


def test_they_are_told_with_every_page_that_is_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) != 2:  # after the first and the third look
            with RunDatabase(folder / "fedavg" / "state.db") as database:
                round = database.last_round() + 1
                database.commit(round, {}, list(rows(round, PEOPLE, lambda r, i: 0.5)))

    monkeypatch.setattr("fedsub.trackers.following.time.sleep", sleep)
    tracker = Rounds()
    following = Trackers(folder, [tracker])
    watch_report(folder, lambda text: None, every=2, sleep=following.pause)
    assert looks == [2, 2, 2] and tracker.told == [1, 2]
    following.update()
    assert tracker.told == [1, 2, 3]


def test_a_database_that_is_being_made_is_for_the_next_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsub.trackers.following.time.sleep", lambda seconds: None)
    (folder / "report.html").write_text("a page")
    database = folder / "fedavg" / "state.db"
    whole = database.read_bytes()
    database.write_bytes(b"")
    tracker = Rounds()
    following = Trackers(folder, [tracker])
    following.pause(1)
    database.write_bytes(whole)
    following.pause(1)
    following.pause(1)
    assert tracker.told == [1]


def test_none_is_wanted_and_none_is_there(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    with trackers(folder, False, None) as following:
        following.update()
    assert sorted(folder.rglob("*")) == before and following.places() == []
