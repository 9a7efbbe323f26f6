"""A run in which people were away: of how many a mean is, and who was missing, refused, resting."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub.report.attendance import NOT_ASKED, Attendance, attendance_maps, by_attendance
from fedsub.report.csv_tables import csv_files
from fedsub.report.curves import curves, curves_explained
from fedsub.report.page import lead
from fedsub.report.reading import read_run
from fedsub.report.report import write_report
from fedsub.report.svg import Drawn
from fedsub_core.config.run_config import RunConfig, dump_toml, to_flat
from fedsub_core.metrics import MetricRow
from fedsub_server.data_notes import DataNotes, write_notes
from fedsub_server.results import method_summaries
from fedsub_server.rundb import RunDatabase
from fedsub_server.tables import REACHED, text_table
from fedsub_server.task_scores import CLASSES, TARGET

from .html_checks import checked
from .made_runs import make_run, rows

PEOPLE = tuple(f"p{i}" for i in range(10))
ROUNDS = 6


def make_thinned(folder: Path, **configured: object) -> Path:
    """Ten people; in round 4 only the best one answers, in round 5 nine, and in all others ten."""
    config = RunConfig(method="fedavg", beside="", rounds=ROUNDS, data="/gone", **configured)  # type: ignore[arg-type]
    (folder / "fedavg").mkdir(parents=True)
    (folder / "run.toml").write_text(dump_toml(config))
    flat = {k: v for k, v in to_flat(config).items() if "." not in k}
    with RunDatabase(folder / "fedavg" / "state.db", flat) as database:
        for round in range(1, ROUNDS + 1):
            found = list(rows(round, PEOPLE, lambda r, i: 0.1 * i))
            away = {4: set(PEOPLE[:9]), 5: {"p0"}}.get(round, set())
            found = [row for row in found if row.client not in away]
            if round == 4:
                found += [MetricRow(4, p, None, "missing_replies", 1) for p in PEOPLE[:7]]
                found += [MetricRow(4, p, None, "refused_replies", 2) for p in PEOPLE[7:9]]
            if round == 5:
                found.append(MetricRow(5, "p0", None, "resting", 1))
            database.commit(round, {}, found)
    return folder


def drawn_line(figure: Drawn) -> list[int]:
    """Return how many points each piece of the method's line has, as the page draws it."""
    (path,) = re.findall(
        r'<g id="[^"]*line2d_\d+">\s*<path d="([^"]*)"[^>]*stroke: #0072b2', figure.svg
    )[:1]
    return [piece.count("L") + 1 for piece in path.split("M")[1:]]


def test_a_round_with_a_tenth_of_the_people_is_no_rise(tmp_path: Path) -> None:
    frame = read_run(make_thinned(tmp_path / "run"))
    found = curves(frame, "macro_f1")
    assert found is not None
    # The line stops before round 4 and goes on after it; its point stands alone, hollow.
    assert drawn_line(found) == [3, 2]
    assert "from 0.450 in round 1 (of 10 of 10 people) to 0.450 in round 6 (of 10" in found.words
    assert "Rounds with fewer than half of the people: fedavg 4." in found.words
    assert "no rise and no fall" in curves_explained(frame)


def test_who_was_what(tmp_path: Path) -> None:
    (trace,) = read_run(make_thinned(tmp_path / "run")).traces
    found = Attendance.of(trace)
    assert found.tested.tolist() == [10, 10, 10, 1, 9, 10]
    assert [found.thin(round) for round in found.rounds] == [False] * 3 + [True] + [False] * 2
    said = {person: states for person, states in zip(found.people, found.states, strict=True)}
    tested, resting, refused, missing = 3, 4, 5, 6
    assert said["p0"].tolist() == [tested] * 3 + [missing, resting, tested]
    assert said["p8"].tolist() == [tested] * 3 + [refused] + [tested] * 2
    assert (said["p9"] == tested).all()


def test_the_page_draws_and_lists_them(tmp_path: Path) -> None:
    folder = make_thinned(tmp_path / "run")
    path, _ = write_report(folder)
    page = checked(path.read_text("utf-8"))
    text = "\n".join(page.texts)
    assert (folder / "figures" / "attendance_1.png").is_file() and "Who took part" in text
    assert "missing 7" in text and "refused 2" in text and "resting 1" in text
    assert "Fewest were tested in round 4: 1 of 10." in text
    with (folder / "tables" / "attendance.csv").open() as file:
        was = {(row["round"], row["person"]): row["was"] for row in csv.DictReader(file)}
    assert was == {
        **{("4", p): "missing" for p in PEOPLE[:7]},
        **{("4", p): "refused" for p in PEOPLE[7:9]},
        ("5", "p0"): "resting",
    }
    with (folder / "tables" / "rounds.csv").open() as file:
        of = {row["round"]: (row["n"], row["people"]) for row in csv.DictReader(file)}
    assert of["4"] == ("1", "10") and of["6"] == ("10", "10")


def test_the_page_says_whose_release_is_behind(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", {"fedavg": lambda r, i: 0.5})
    said = "Devices behind the server's release: p0 (0.0.9). Upgrade them."
    assert said not in lead(read_run(folder), [])
    write_notes(folder, DataNotes(behind={"p0": "0.0.9"}))
    assert lead(read_run(folder), [])[-1] == said


def test_f1_is_told_by_how_often_people_took_part(tmp_path: Path) -> None:
    """Of six rounds p0 was away for two; of one group alone nothing is said."""
    (trace,) = read_run(make_thinned(tmp_path)).traces
    found = Attendance.of(trace)
    assert found.shares["p0"] == pytest.approx(4 / 6) and found.shares["p9"] == 1
    f1 = trace.people["macro_f1"]
    assert by_attendance(found, f1, CLASSES) == ""
    rare = replace(found, states=np.where(np.arange(10)[:, None] < 2, NOT_ASKED, found.states))
    assert by_attendance(rare, f1, CLASSES) == (
        " People by the rounds in which they took part: fewer than a third: 2, macro F1 0.050; "
        "more: 8, macro F1 0.550."
    )
    assert "a third: 2, MAE 0.05; more: 8, MAE 0.55." in by_attendance(rare, f1, TARGET)


def test_where_all_took_part_nothing_is_added(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", {"fedavg": lambda r, i: 0.5})
    frame = read_run(folder)
    assert Attendance.of(frame.traces[0]).complete
    assert list(attendance_maps(frame)) == [] and "attendance.csv" not in csv_files(frame, [], [])
    found = curves(frame, "macro_f1")
    assert found is not None and "people)" not in found.words


def test_people_who_join_late_make_no_early_round_thin(tmp_path: Path) -> None:
    (trace,) = read_run(make_late(tmp_path / "run")).traces
    found = Attendance.of(trace)
    assert found.known.tolist() == [2, 10] and found.tested.tolist() == [2, 10]
    assert found.states[-1].tolist()[0] == 0 and found.complete


def make_late(folder: Path) -> Path:
    config = RunConfig(method="fedavg", beside="", rounds=2, data="/gone")
    (folder / "fedavg").mkdir(parents=True)
    (folder / "run.toml").write_text(dump_toml(config))
    with RunDatabase(folder / "fedavg" / "state.db", {"rounds": 2}) as database:
        for round, people in ((1, PEOPLE[:2]), (2, PEOPLE)):
            database.commit(round, {}, rows(round, people, lambda r, i: 0.5))
    return folder


def test_held_out_people_are_all_there_are_in_their_rounds(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "fedavg").mkdir(parents=True)
    flat = {"split": "unseen", "unseen-rounds": 1, "rounds": 2}
    with RunDatabase(folder / "fedavg" / "state.db", flat) as database:
        database.commit(1, {}, rows(1, PEOPLE[:8], lambda r, i: 0.5))
        sent = [MetricRow(2, person, None, "bytes_up_sent", 1) for person in PEOPLE[:8]]
        database.commit(2, {}, [*rows(2, PEOPLE[8:], lambda r, i: 0.5), *sent])
    (trace,) = read_run(folder).traces
    found = Attendance.of(trace)
    assert [found.count(round) for round in (1, 2)] == [(8, 8), (2, 2)]
    assert not found.thin(2)


@pytest.mark.parametrize("last", [4, 5])
def test_a_run_that_ends_with_few_says_so(tmp_path: Path, last: int) -> None:
    folder = make_thinned(tmp_path / "run")
    with RunDatabase(folder / "fedavg" / "state.db") as database:
        kept = [row for row in database.metrics() if row.round <= last]
    (folder / "fedavg" / "state.db").unlink()
    with RunDatabase(folder / "fedavg" / "state.db", {"rounds": last}) as database:
        database.commit(last, {}, kept)
    (summary,) = summaries = method_summaries(folder)
    table = text_table(summaries, REACHED)
    if last == 4:
        assert "0.900 (1 of 10)" in table and "±" not in table.splitlines()[-1]
        assert summary.macro_f1_ci95 is None
    else:
        assert "(9 of 10)" in table and summary.macro_f1_ci95 is not None
    said = "The numbers of fedavg are of 1 of 10 people, fewer than half"
    assert any(text.startswith(said) for text in lead(read_run(folder), [])) == (last == 4)
