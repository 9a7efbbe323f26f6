"""The page of a study: a part for each table, everything in it, from runs with chosen numbers."""

import csv
import re
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fedsub.report import comparing
from fedsub.studies.engine import SECONDS_FILE, Underway
from fedsub.studies.kept_runs import RUNS, database_of
from fedsub.studies.kept_study import keep_study, kept_study, shortened
from fedsub.studies.runner import final_tasks, row_key, run_tasks
from fedsub.studies.study import Printed, Study, Task, Values
from fedsub.studies.study_file import read_study
from fedsub.studies.study_page import renew_study_page, write_study_page
from fedsub.studies.study_results import finished, gains_of, tables
from fedsub.studies.study_tables import markdown, write_tables
from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import dump_toml
from fedsub_core.data.findings import AT_RANDOM, SplitNote
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.version import VERSION, build
from fedsub_server.data_notes import DataNotes, write_notes
from fedsub_server.run_folder import RUN_FILE
from fedsub_server.rundb import RunDatabase
from fedsub_server.rundb_seal import sealed

from ..report.html_checks import checked
from ..report.made_runs import PEOPLE, make_run
from .made_studies import REACHED, STUDY, made, nothing_tuned

pytestmark = pytest.mark.usefixtures("blank_figures")

#: Of one of four people samples are in no known order, of one they may overlap.
_SPLITS = (
    AT_RANDOM,
    "in time by the order of the file, gap not known",
    *2 * ["in time by t, gap 1 s"],
)
NOTES = DataNotes(
    {person: SplitNote(how, 7, 3, 0, 0) for person, how in zip(PEOPLE, _SPLITS, strict=True)}
)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "two.toml").write_text(STUDY)
    return read_study(tmp_path / "two.toml")


def test_a_split_at_random_is_said_below_each_table(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    folders = [tmp_path / RUNS / task.name for task in final_tasks(study, nothing_tuned(study))]
    random = "Split: at random in each class, for 1 of 4 people. If samples"
    unknown = f"Whether samples overlap is not known for 1 of 4 clients ({PEOPLE[1]})"
    for times in (0, 2):
        for folder in folders if times else ():
            write_notes(folder, NOTES)
        runs = finished(study, tmp_path, nothing_tuned(study))
        tables = write_tables(study, tmp_path, runs)
        page = write_study_page(study, tmp_path, runs).read_text("utf-8")
        for said in (random, unknown):
            assert tables.count(said) == page.count(said) == times


def test_whoever_is_left_out_is_named(study: Study, tmp_path: Path) -> None:
    """The last of four people has no test samples, in all runs but those of FedAvg."""
    made(study, tmp_path)
    for task in final_tasks(study, nothing_tuned(study)):
        if task.method != "fedavg":
            run = tmp_path / RUNS / task.name
            (run / task.method / "state.db").unlink()
            make_run(
                run,
                {task.method: lambda r, i: 0.5},
                rounds=task.config.rounds,
                examples=lambda r, i: 10 * (i < len(PEOPLE) - 1),
            )
    runs = finished(study, tmp_path, nothing_tuned(study))
    said = f"Not in the numbers of local, fedsub mixing: {PEOPLE[-1]} (no test samples)."
    assert write_tables(study, tmp_path, runs).count(said) == 2
    assert write_study_page(study, tmp_path, runs).read_text("utf-8").count(said) == 2
    with (tmp_path / "runs.csv").open() as file:
        found = {row["label"]: (row["clients"], row["people"]) for row in csv.DictReader(file)}
    assert found == {"local": ("3", "4"), "fedsub mixing": ("3", "4"), "fedavg": ("4", "4")}


def test_the_page_has_a_part_for_each_table(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # its figures are drawn
    monkeypatch.setattr(comparing, "FEWEST", len(PEOPLE))
    monkeypatch.setattr(comparing, "FEWEST_PEOPLE", len(PEOPLE))
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    page = write_study_page(study, tmp_path, runs).read_text("utf-8")
    checked(page)
    assert '<a href="tables.tex">' in page and (tmp_path / "tables.tex").is_file()
    assert "F1 of every person and class" in page
    assert "Two &lt;tables&gt;" in page and "What is known before." in page
    assert page.count("<section") == 3  # two tables, and how it was done
    for key in ("data", "split", "rounds"):
        assert all(f">{key} (data watch, {cell})<" in page for cell in ("lr 0.05", "epochs 2"))
    assert "4 people, hash " in page
    # Nothing was tuned, so that all have the rate of the table; what a row fixes is said.
    assert "sgd, rate 0." in page and "rate as chosen" not in page
    assert "fedsub mixing: k-selection = dbi-capped" in page
    assert "settings of all" not in page
    assert ">the model as last trained at home: fedsub mixing, local; the model as last" in page
    assert "data watch, lr 0.05: greatest macro F1: fedsub mixing, 0.795" in page
    assert "better than local, by the interval: fedsub mixing; worse: fedavg" in page
    # Curves with the paper's end points where it prints any, the strip, maps, clusters.
    for key in ("01_", "02_"):
        names = {"macro_f1", "loss", "gains", "people", "classes", "clusters_1", "members_1"}
        assert {path.stem for path in (tmp_path / "figures").glob(f"{key}*")} == {
            key + name for name in names
        }
    assert page.count("what the paper prints: fedsub mixing 0.87, fedavg 0.50") == 1
    assert page.count("that end in a triangle are what the paper prints.") == 1
    assert page.count("hollow ones are worse off than with local.") == 2
    with (tmp_path / "tables" / "01_methods.csv").open() as file:
        labels = [row["method"] for row in csv.DictReader(file)]
    assert sorted(set(labels)) == ["fedavg", "fedsub mixing", "local"] and len(labels) == 6
    with (tmp_path / "tables" / "01_people.csv").open() as file:
        people = {row["person"]: row for row in csv.DictReader(file)}
    # Means over both seeds, of the last round.
    for place, person in enumerate(PEOPLE):
        assert float(people[person]["fedsub mixing"]) == pytest.approx(0.75 + 0.03 * place)


def test_runs_by_another_code_are_told(
    study: Study, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(study, tmp_path)
    wanted = list(final_tasks(study, nothing_tuned(study)))

    def told() -> str:
        caplog.clear()
        run_tasks(wanted, tmp_path, no_engine, "runs", lambda stage: None)
        return caplog.text

    assert told() == ""
    assert "by the same code" not in write_tables(
        study, tmp_path, finished(study, tmp_path, nothing_tuned(study))
    )
    path = database_of(tmp_path, wanted[0])
    with closing(sqlite3.connect(path, isolation_level=None)) as database, sealed(database):
        database.execute("UPDATE meta SET value = 'older' WHERE key = 'code'")
    assert "1 of its runs are by fedsub" in told() and "(code older), not by" in told()
    runs = finished(study, tmp_path, nothing_tuned(study))
    counts = f"1 by fedsub {VERSION} (code older); {len(runs) - 1} by fedsub {build()}."
    assert counts in write_tables(study, tmp_path, runs)
    assert counts in write_study_page(study, tmp_path, runs).read_text("utf-8")


def no_engine(
    tasks: Sequence[Task], folder: Path, underway: Underway
) -> Generator[tuple[Task, str | None], None, None]:
    assert not tasks
    yield from ()


def test_papers_and_other_measures_stand_beside_what_came_out(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    first, second = markdown(study, tables(study, runs), runs).split("## ")[1:]
    heads, lines = (
        [part.splitlines()[2].split(" | ") for part in (first, second)],
        first.split("\n"),
    )
    assert heads[0][-3:] == ["clusters", "accuracy", "macro-f1: Fig. 4 |"]
    assert heads[1][-2:] == ["clusters", "accuracy |"]
    (mixing,) = (line for line in lines if line.startswith("| fedsub mixing |"))
    (alone,) = (line for line in lines if line.startswith("| local |"))
    assert mixing.endswith("| 2.500 | 0.795 | 0.870 |")  # 2 and 3 clusters of two classes
    assert alone.endswith("| - | 0.545 | - |")


def test_runs_of_tables_that_vary_something_else_stand_in_one_file(
    study: Study, tmp_path: Path
) -> None:
    """The first table has a rate and no epochs, the second epochs and no rate."""
    made(study, tmp_path)
    write_tables(study, tmp_path, finished(study, tmp_path, nothing_tuned(study)))
    with (tmp_path / "runs.csv").open() as file:
        varied = {(row["lr"], row["epochs"]) for row in csv.DictReader(file)}
    assert varied == {("0.05", ""), ("", "2")}


def test_a_studys_folder_knows_its_study(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    asked = {"seeds": "4", "rounds": 2, "only": ["lr=0.05"]}
    keep_study(folder, tmp_path / "two.toml", None, asked)
    (tmp_path / "two.toml").unlink()
    kept = kept_study(folder)
    assert (kept.title, kept.seeds, kept.run["rounds"]) == (study.title, (4,), 2)
    assert kept.cells == study.cells[:1] and kept.entries == study.entries
    (folder / "asked.json").write_text("[]")
    with pytest.raises(RunError, match=r"asked\.json: cannot be read"):
        kept_study(folder)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"clusters"', '"Clusters!"', "got the measure 'Clusters!'"),
        ("lr = 0.05 }", "lr = 0.1 }", "where: got {'lr': 0.1}, expected what"),
        ("fedavg = 0.5 }", "fedavgg = 0.5 }", "paper: macro-f1: got .*expected numbers by name"),
        ('source = "Fig. 4"', "", "expected a source and numbers"),
        ('"clusters"', '"rounds-to-f1-0.8"', "'rounds-to-f1-0.8', expected rounds or seconds to a"),
        ('"clusters"', '"seconds-to-loss-0.1"', "expected rounds or seconds to a macro-f1"),
        ('"clusters"', '"rounds-to-accuracy-"', "expected rounds or seconds to a macro-f1"),
        ('"clusters"', '"rounds-to-accuracy-80"', "accuracy or r2 from 0 to 1, such as"),
        ("epochs = [2]", "epochs = [2, 2]", "vary: epochs: got .2, 2., expected a list"),
        ("epochs = [2]", "seed = 2", "vary: seed: got 2, expected it among seeds"),
    ],
)
def test_what_no_paper_can_say_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in STUDY
    (tmp_path / "two.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        read_study(tmp_path / "two.toml")


def test_some_tables_of_a_study(study: Study) -> None:
    assert shortened(study, None, None, ["epochs=2"]).cells == study.cells[1:]
    with refused(ConfigError, got="'epochs=3'", expected="data=watch, lr=0.05"):
        shortened(study, None, None, ["epochs=3"])


def test_a_measure_of_the_evaluation_before_the_last(study: Study, tmp_path: Path) -> None:
    """Of three rounds the second: the base, and 0.01 a place and round."""
    study = replace(study, show=("macro-f1-before", "loss-before"))
    made(study, tmp_path)
    for run in finished(study, tmp_path, nothing_tuned(study)):
        base = REACHED[run.task.method][run.task.config.seed]
        assert run.measures["macro-f1-before"] == pytest.approx(base + 0.01 * 1.5 * 2)
        assert run.summary.macro_f1 == pytest.approx(base + 0.01 * 1.5 * 3)
        assert run.measures["loss-before"] == run.summary.loss


def test_rounds_and_seconds_to_a_target(study: Study, tmp_path: Path) -> None:
    """Means over people rise by 0.015 a round: fedsub has 0.715, 0.73 and 0.745 with seed 0."""
    names = ("rounds-to-macro-f1-0.72", "seconds-to-accuracy-0.72", "rounds-to-macro-f1-.99")
    study = replace(study, show=names)
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    for run in runs:
        first = {("fedsub", 0): 2, ("fedsub", 1): 1}.get((run.task.method, run.task.config.seed))
        assert run.measures[names[0]] == first and run.measures[names[2]] is None
        seconds = run.measures[names[1]]
        if first is None:
            assert seconds is None
        else:
            with RunDatabase(database_of(tmp_path, run.task)) as database:
                took = database.seconds_by_round()
            assert seconds == sum(took[round] for round in range(1, first + 1))
    text = write_tables(study, tmp_path, runs)
    (mixing,) = re.findall(r"\| fedsub mixing \|.*", text.split("## ")[1])
    assert "| 1.5 |" in mixing
    (alone,) = re.findall(r"\| local \|.*", text.split("## ")[1])
    assert alone.count("| - ") >= 3
    # Of times nothing stands in the file that does not depend on the machine.
    with (tmp_path / "runs.csv").open() as file:
        columns = csv.DictReader(file).fieldnames or ()
    assert names[0] in columns and names[1] not in columns
    assert "server_milliseconds" not in columns


def test_tables_count_who_is_better_and_worse_than_alone_beyond_noise(tmp_path: Path) -> None:
    """A person counts in each seed; where no device has a model without others there is nothing."""
    text = 'seeds = [0, 1]\n[run]\ndata = "watch"\nrounds = 3\n[methods.local]\n'
    for more, said in (("", None), ("[methods.fedsub-gated]\n", ("-", "4 / 2 of 8"))):
        (tmp_path / "two.toml").write_text(text + more)
        study, out = read_study(tmp_path / "two.toml"), tmp_path / f"out{len(more)}"
        for task in final_tasks(study, nothing_tuned(study)):
            run = make_run(out / RUNS / task.name, {task.method: lambda r, i: 0.5})
            (run / SECONDS_FILE).write_text("1.0")
        lines = write_tables(study, out, finished(study, out, nothing_tuned(study))).splitlines()
        head, *rows = (line.split(" | ") for line in lines if line.startswith("| "))
        title = "better / worse than alone beyond noise"
        assert (title in head) == ("; alone: the model" in "".join(lines)) == (said is not None)
        if said:
            assert [row[head.index(title)] for row in rows] == list(said)


def test_some_rows_of_a_study(study: Study) -> None:
    rows = shortened(study, None, None, row=["fedavg", "local"]).entries
    assert [entry.label for entry in rows] == ["local", "fedavg"]
    with refused(ConfigError, "row", got="'ditto'", expected="local"):
        shortened(study, None, None, row=["ditto"])


def test_the_page_can_be_written_again_once_all_is_done(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    keep_study(tmp_path, tmp_path / "two.toml", None, {"seeds": None, "rounds": None})
    chosen = nothing_tuned(study)
    first = write_study_page(study, tmp_path, finished(study, tmp_path, chosen)).read_bytes()
    page, runs = renew_study_page(tmp_path)
    assert page.read_bytes() == first and len(runs) == 2 * 3 * 2
    # What is written last says that a run has ended; rounds that are there do not.
    (runs[-1] / SECONDS_FILE).unlink()
    with pytest.raises(RunError, match=f"the study has runs to do .{runs[-1].name} has not fin"):
        renew_study_page(tmp_path)


def test_at_equal_compute_methods_are_compared_as_they_ended(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fedsub` has fewer rounds than `local`, which is behind in the last one that both have."""
    monkeypatch.setattr(comparing, "FEWEST", len(PEOPLE))
    monkeypatch.setattr(comparing, "FEWEST_PEOPLE", len(PEOPLE))
    given = {"rounds": 9, "fedsub.relevance-samples": 0}
    study = replace(study, budget="compute", run=given, cells=study.cells[:1], papers=())
    for task in final_tasks(study, nothing_tuned(study)):
        late = {"local": lambda r, i: 0.1 * r, "fedavg": lambda r, i: 0.6}
        score = late.get(task.method, lambda r, i: 0.7 + 0.01 * i)
        rounds = task.config.rounds
        run = make_run(tmp_path / RUNS / task.name, {task.method: score}, rounds=rounds)
        (run / SECONDS_FILE).write_text("1.0")
    runs = finished(study, tmp_path, nothing_tuned(study))
    assert {run.task.method: run.task.config.rounds for run in runs} == {
        "local": 9, "fedavg": 9, "fedsub": 3,
    }  # fmt: skip
    page = write_study_page(study, tmp_path, runs).read_text("utf-8")
    ((_, rows),) = tables(study, runs)
    gain = {row.entry.label: row.gain for row in rows}["fedsub mixing"]
    assert gain == pytest.approx(0.715 - 0.9)
    with (tmp_path / "tables" / "pairs.csv").open() as file:
        pairs = {(pair["first"], pair["second"]): pair for pair in csv.DictReader(file)}
    pair = pairs["local", "fedsub mixing"]
    assert -float(pair["difference"]) == pytest.approx(gain) and pair["round"] == "9 and 3"
    assert "better than local, by the interval: none; worse: fedsub mixing, fedavg" in page
    assert ">local 9, fedsub mixing 3, fedavg 9, evaluated in every round<" in page


def test_people_of_some_seeds_count_with_those(study: Study, tmp_path: Path) -> None:
    """As where each seed holds out other people: an estimate lies in its own interval."""
    study = replace(study, cells=study.cells[:1], papers=())
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    both = {"a": 0.9, "b": 0.8, "e": 0.475}
    one, other = both | {"c": 0.1}, both | {"d": 0.1}
    runs = [replace(run, people=other if run.task.config.seed else one) for run in runs]
    ((_, rows),) = tables(study, runs)
    for row in rows:
        assert row.score == pytest.approx(0.475) and row.interval is not None
        assert row.interval[0] < row.score < row.interval[1]
        assert row.gain in (None, 0) and row.worse in (None, 0)
    mine, theirs = [{"a": 0.9, "b": 0.5}, {"a": 0.7, "b": 0.5}], [{"a": 0.8, "b": 0.5}] * 2
    assert (gains_of(mine, theirs) == 0).all(), "0.1 - 0.1 is less than 0 by the last bit"


def test_a_smaller_report_leaves_nothing_of_a_greater(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    write_study_page(study, tmp_path, finished(study, tmp_path, nothing_tuned(study)))
    assert (tmp_path / "tables" / "02_pairs.csv").is_file()
    smaller = replace(study, cells=study.cells[:1])
    write_study_page(smaller, tmp_path, finished(smaller, tmp_path, nothing_tuned(smaller)))
    left = [*(tmp_path / "tables").iterdir(), *(tmp_path / "figures").iterdir()]
    assert left and not [path.name for path in left if path.name.startswith("0")]


def test_a_page_says_what_all_rows_are_set_to_and_what_was_chosen(tmp_path: Path) -> None:
    text = STUDY.replace('title = "Two <tables>"\n', "").replace("lr = 0.05\n", "epochs = 1\n")
    text = text.replace("rounds = 3", "rounds = 3\nclients-per-round = 2\nthreads = 2")
    text = text.replace("where = { lr = 0.05 }", "where = { epochs = 1 }")
    file = tmp_path / "two.toml"
    file.write_text(f"{text}[tune]\nlr = [0.1]\nmomentum = [0.5]\n")
    study = read_study(file)
    values: dict[str, Values] = {
        row_key(entry, cell): {"lr": 0.1, "momentum": 0.5} for cell, entry in study.rows()
    }
    for task in final_tasks(study, values):
        run = make_run(tmp_path / RUNS / task.name, {task.method: lambda r, i: 0.5})
        (run / RUN_FILE).write_text(dump_toml(task.config))
        (run / SECONDS_FILE).write_text("1.0")
    keep_study(tmp_path, file, None, {"seeds": None, "rounds": None})
    page = write_study_page(study, tmp_path, finished(study, tmp_path, values)).read_text("utf-8")
    assert ">clients-per-round = 2<" in page
    assert "sgd, rate as chosen, momentum as chosen, batches of 32, epochs in a round 1" in page
    assert study.title == kept_study(tmp_path).title == "two"


def test_what_one_source_prints_stands_in_one_column(study: Study, tmp_path: Path) -> None:
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    twice = tuple(
        Printed("Table 2 | HAR", {"lr": 0.05}, {"macro-f1": {label: number}})
        for label, number in (("fedavg", 0.5), ("local", 0.9))
    )
    study = replace(study, papers=twice)
    first = markdown(study, tables(study, runs), runs).split("## ")[1]
    lines = [line.split(" | ") for line in first.splitlines() if line.startswith("| ")]
    assert len({len(line) for line in lines}) == 1
    column = ["macro-f1: Table 2 \\| HAR |", "- |", "0.900 |", "0.500 |"]
    assert [line[-1] for line in lines] == column
