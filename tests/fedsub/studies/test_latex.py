"""A study's tables as LaTeX: special characters, missing values, spreads over seeds, the best."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedsub.studies.latex import LATEX_FILE, escaped, latex
from fedsub.studies.study import Study
from fedsub.studies.study_file import read_study
from fedsub.studies.study_results import Run, finished, tables
from fedsub.studies.study_tables import write_tables

from .made_studies import STUDY, made, nothing_tuned


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "two.toml").write_text(STUDY)
    return read_study(tmp_path / "two.toml")


@pytest.fixture
def runs(study: Study, tmp_path: Path) -> list[Run]:
    made(study, tmp_path)
    return finished(study, tmp_path, nothing_tuned(study))


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the first table's cells by row."""
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    rows = [line.removesuffix(r" \\").split(" & ") for line in body.strip().splitlines()]
    return {name: cells for name, *cells in rows}


def test_means_and_standard_deviations_over_seeds_the_best_in_bold(
    study: Study, runs: list[Run]
) -> None:
    """Seeds reach 0.745 and 0.845 with fedsub: their standard deviation is 0.1 / sqrt 2."""
    text = latex(study, tables(study, runs), runs)
    rows = rows_of(text)
    assert list(rows) == ["fedsub mixing", "local", "fedavg"]
    assert rows["fedsub mixing"][0] == r"\textbf{0.795} $\pm$ 0.071"
    assert rows["local"][0] == r"0.545 $\pm$ 0.000"
    # All losses are 1: what is alike is best alike. Clusters are neither good nor bad.
    assert {cells[3] for cells in rows.values()} == {r"\textbf{1.000} $\pm$ 0.000"}
    assert [cells[4] for cells in rows.values()] == [r"2.500 $\pm$ 0.000", "--", "--"]
    # What a paper prints is never bold, and has no spread.
    assert [cells[-1] for cells in rows.values()] == ["0.870", "--", "0.500"]
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2
    assert "Mean and standard deviation over 2 seeds; the best in bold." in text
    assert r"\begin{tabular}{lrrrrrrr}" in text


def test_of_one_seed_there_is_no_spread(study: Study, runs: list[Run]) -> None:
    one = replace(study, seeds=(1,), cells=study.cells[:1])
    mine = [run for run in runs if run.task.config.seed == 1 and run.task.cell == study.cells[0]]
    text = latex(one, tables(one, mine), mine)
    assert r"\pm" not in text and "One seed, 1; the best in bold." in text
    assert rows_of(text)["fedsub mixing"][0] == r"\textbf{0.845}"


def test_what_some_seed_lacks_is_missing_and_what_diverged_is_not_best(
    study: Study, runs: list[Run]
) -> None:
    first = replace(runs[0], measures={**runs[0].measures, "accuracy": None})
    nan = replace(runs[2], summary=replace(runs[2].summary, loss=float("nan")))
    changed = [first, runs[1], nan, *runs[3:]]
    rows = rows_of(latex(study, tables(study, changed), changed))
    assert rows[runs[0].task.entry.label][5] == "--"
    assert rows[runs[2].task.entry.label][3] == "nan"
    assert rows["fedavg"][3].startswith(r"\textbf{1.000}")


def test_special_characters_are_said(study: Study, runs: list[Run]) -> None:
    assert escaped('a_b & 5 % of {x} ~ ^ # $ \\ <i> | "q"\n') == (
        r"a\_b \& 5 \% of \{x\} \textasciitilde{} \textasciicircum{} \# \$ \textbackslash{} "
        r"\textless{}i\textgreater{} \textbar{} \textquotedbl{}q\textquotedbl{} "
    )
    odd = replace(study, title="50 % & more_{x}")
    text = latex(odd, tables(odd, runs), runs)
    assert r"\caption{50 \% \& more\_\{x\} (data watch, lr 0.05)." in text
    # Nothing but rows and what is said begins a cell, a comment or a group.
    body = text.replace(r"\&", "").replace(r"\%", "").replace(r"\{", "").replace(r"\}", "")
    assert body.count("{") == body.count("}")
    assert {line.count(" & ") for line in body.splitlines() if line.endswith(r"\\")} == {7, 6}
    assert not re.search(r"(?<!\\)%", "\n".join(text.splitlines()[2:]))


def test_it_stands_beside_the_other_tables(study: Study, runs: list[Run], tmp_path: Path) -> None:
    write_tables(study, tmp_path, runs)
    text = (tmp_path / LATEX_FILE).read_text("utf-8")
    assert text == latex(study, tables(study, runs), runs)
