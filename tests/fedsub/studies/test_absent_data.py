"""Data of a study that are not there: what to fetch is said, and the rest is trained."""

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from fedsub.studies.absent_data import absent_data, check_some_data
from fedsub.studies.engine import Underway
from fedsub.studies.kept_study import shortened
from fedsub.studies.runner import RunsFailedError, run_study
from fedsub.studies.study import Task
from fedsub.studies.study_file import read_study
from fedsub.studies.study_results import finished, tables
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import ConfigError, DataError

from .in_this_process import in_this_process

STUDIES = Path(__file__).resolve().parents[3] / "studies"
STUDY = """
[made]
watch-twice = "fedsub data evolve watch --out watch-twice"
[run]
rounds = 1
[vary]
data = ["watch", "watch-twice", "dreamt"]
[methods]
local = {}
fedavg = {}
"""


def study_of(place: Path, text: str = STUDY) -> Path:
    (file := place / "three.toml").write_text(text)
    return file


def test_what_is_not_there_is_left_out_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = read_study(study_of(tmp_path))
    (out := tmp_path / "out").mkdir()
    begun: list[Task] = []

    def engine(
        tasks: Sequence[Task], folder: Path, underway: Underway
    ) -> Generator[tuple[Task, str | None], None, None]:
        begun.extend(tasks)
        return in_this_process(tasks, folder, underway)

    with pytest.raises(RunsFailedError) as failed:
        run_study(study, out, engine, lambda stage: None)
    assert {task.config.data for task in begun} == {"watch"}
    said = str(failed.value)
    assert "4 runs failed" in said and said.count("dreamt: ") == 2  # its name, and its folder
    assert "Make it: fedsub data evolve watch --out watch-twice" in said
    assert "https://physionet.org/content/dreamt/" in said
    assert "fedsub data prepare dreamt --source FILES --out dreamt" in said
    assert caplog.text.count("Its runs are left out") == 2
    rest = failed.value.rest
    assert rest.about.endswith("all rows (data watch-twice); all rows (data dreamt).")
    runs = finished(rest, out, failed.value.chosen)
    ((cell, rows),) = tables(rest, runs)
    assert dict(cell) == {"data": "watch"} and len(rows) == 2


def test_a_study_without_any_of_its_data_is_refused_by_name(tmp_path: Path) -> None:
    study = shortened(read_study(study_of(tmp_path)), None, None, ["data=dreamt"])
    with refused(DataError, "data dreamt", "no such folder", "owner"):
        check_some_data(study)
    check_some_data(read_study(study_of(tmp_path)))  # the watch's are always there


def test_runs_that_have_ended_need_their_data_no_more(tmp_path: Path) -> None:
    write_federation(tmp_path / "town", people(samples=12))
    one = '[run]\ndata = "town"\nrounds = 1\n[methods]\nlocal = {}\n'
    study = read_study(study_of(tmp_path, one))
    (out := tmp_path / "out").mkdir()
    chosen = run_study(study, out, in_this_process, lambda stage: None)
    (tmp_path / "town").rename(tmp_path / "elsewhere")
    assert absent_data(study)
    assert run_study(study, out, in_this_process, lambda stage: None) == chosen


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("watch-twice =", "other =", "made: other: got .*expected how one of watch, .*dreamt"),
        ('"fedsub data evolve watch --out watch-twice"', "3", "made: watch-twice: got 3"),
        ("[made]", "[[made]]", "made: got .*expected a table"),
    ],
)
def test_what_is_made_is_a_federation_of_the_study(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        read_study(study_of(tmp_path, STUDY.replace(old, new, 1)))


@pytest.mark.parametrize(
    "name",
    ["paper-static", "paper-dynamic", "relevance-bytes", "fusion", "hhar", "hhar-two"],
)
def test_studies_of_data_that_only_their_owners_give_out_say_how_to_get_them(name: str) -> None:
    absent = absent_data(read_study(STUDIES / f"{name}.toml"))
    assert absent and all("Get it: " in what or "Make it: " in what for what in absent.values())
