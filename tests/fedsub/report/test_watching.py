"""A report that follows its run."""

from pathlib import Path

import pytest

from fedsub.report.watching import watch_report
from fedsub_core.errors import RunError
from fedsub_server.rundb import RunDatabase

from .made_runs import PEOPLE, make_run, rows


def commit(folder: Path, round: int) -> None:
    with RunDatabase(folder / "fedavg" / "state.db") as database:
        database.commit(round, {}, list(rows(round, PEOPLE, lambda r, i: 0.5)))


def test_it_ends_with_the_run_and_then_no_longer_loads_itself_anew(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {"fedavg": lambda r, i: 0.5}, done={"fedavg": 1})
    said: list[str] = []
    seen: list[bool] = []

    def sleep(seconds: float) -> None:
        page = folder / "report.html"
        # The second look finds nothing new, and writes nothing.
        seen.append(page.exists() and 'content="2"' in page.read_text("utf-8"))
        page.unlink(missing_ok=True)
        if len(seen) > 1:
            commit(folder, len(seen))

    path = watch_report(folder, said.append, every=2, sleep=sleep)
    assert seen == [True, False, True] and len(said) == 1 and "Ctrl-C" in said[0]
    assert "refresh" not in path.read_text("utf-8")


def test_interrupted_it_leaves_a_page_that_rests(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {"fedavg": lambda r, i: 0.5}, done={"fedavg": 1})

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    path = watch_report(folder, lambda text: None, sleep=interrupt)
    text = path.read_text("utf-8")
    assert "refresh" not in text and "Not finished: fedavg 1 of 3 rounds" in text


def test_it_waits_for_a_runs_folder_only(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run's folder"):
        watch_report(tmp_path, lambda text: None)


def test_a_database_that_is_being_made_is_looked_at_again(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {"fedavg": lambda r, i: 0.5})
    whole = (folder / "fedavg" / "state.db").read_bytes()
    (folder / "fedavg" / "state.db").write_bytes(b"")

    def finish(seconds: float) -> None:
        (folder / "fedavg" / "state.db").write_bytes(whole)

    assert watch_report(folder, lambda text: None, sleep=finish).is_file()
    (folder / "fedavg" / "state.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(RunError, match=r"state\.db"):
        watch_report(folder, lambda text: None, sleep=lambda seconds: None)
