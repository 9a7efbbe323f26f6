r"""A study's tables as LaTeX with booktabs, to be put into a paper.

A number is the mean over seeds, behind it their standard deviation (of a sample, n - 1).
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedsub.studies.measures import asked, number, printed
from fedsub.studies.study import Cell, Study, name_of
from fedsub.studies.study_results import Row, Run
from fedsub_core.files import write_whole
from fedsub_server.task_scores import TaskScores

LATEX_FILE = "tables.tex"
_OPENING = (
    "% Written by fedsub compare, anew each time.\n"
    "% Needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}."
)
_MISSING = "--"
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip
#: How measures begin of which the greatest or the least is best; of others it is not known.
_GREATEST = ("macro-f1", "weighted-f1", "accuracy", "f1", "r2")
_LEAST = ("loss", "mae", "rmse", "rounds-to-", "seconds-to-")


def write_latex(
    study: Study, folder: Path, found: Sequence[tuple[Cell, Sequence[Row]]], runs: Sequence[Run]
) -> None:
    """Write ``tables.tex`` into a study's folder."""
    write_whole(folder / LATEX_FILE, latex(study, found, runs).encode())


def latex(study: Study, found: Sequence[tuple[Cell, Sequence[Row]]], runs: Sequence[Run]) -> str:
    """Return the tables as LaTeX, the best of a column in bold."""
    parts = [_OPENING]
    for place, (cell, rows) in enumerate(found, start=1):
        mine = [run for run in runs if run.task.cell == cell]
        parts.append(_table(study, cell, rows, mine, place))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Return a text as LaTeX sets it, on one line."""
    return "".join(_SPECIAL.get(c, c if c.isprintable() else " ") for c in text)


def _table(study: Study, cell: Cell, rows: Sequence[Row], runs: Sequence[Run], place: int) -> str:
    scores = study.scores
    names = [*scores.always, *asked(study, cell)]
    theirs = printed(study, cell)
    columns = [_column(scores, name, rows, runs) for name in names]
    columns += [
        [_plain(name, numbers.get(row.entry.label)) for row in rows]
        for name, numbers in theirs.values()
    ]
    titles = [scores.title, scores.worst_title, *scores.others.values(), *asked(study, cell)]
    head = ["method", *titles, *theirs]
    title = f"{study.title} ({name_of(cell)})" if cell else study.title
    seeds = sorted({run.task.config.seed for run in runs})
    over = f"One seed, {seeds[0]}"
    if folds := {run.task.fold for run in runs} - {()}:
        over = f"Mean and standard deviation over {len(seeds)} seeds and {len(folds)} folds"
    elif len(seeds) > 1:
        over = f"Mean and standard deviation over {len(seeds)} seeds"
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(title)}. {over}; the best in bold.}}",
        rf"\label{{tab:study-{place}}}",
        rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
        r"\toprule",
        " & ".join(map(escaped, head)) + r" \\",
        r"\midrule",
    ]
    for row, *cells in zip(rows, *columns, strict=True):
        lines.append(" & ".join([escaped(row.entry.label), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def _column(scores: TaskScores, name: str, rows: Sequence[Row], runs: Sequence[Run]) -> list[str]:
    """Return a measure's cells, a row each."""
    means = [_of_row(scores, name, row) for row in rows]
    texts = [_plain(name, mean) for mean in means]
    known = [mean for mean in means if mean is not None and math.isfinite(mean)]
    best = ""
    if len(known) > 1 and name.startswith((*_GREATEST, *_LEAST)) and not name.endswith("-std"):
        # What is printed alike is alike.
        best = _plain(name, max(known) if name.startswith(_GREATEST) else min(known))
    cells = []
    for row, text in zip(rows, texts, strict=True):
        mine = [_of_run(scores, name, run) for run in runs if run.task.entry == row.entry]
        each = [value for value in mine if value is not None and math.isfinite(value)]
        spread = ""
        if 1 < len(each) == len(mine):
            spread = rf" $\pm$ {number(name, float(np.std(each, ddof=1)))}"
        cells.append((rf"\textbf{{{text}}}" if text == best else text) + spread)
    return cells


def _of_row(scores: TaskScores, name: str, row: Row) -> float | None:
    always = zip(scores.always, (row.score, row.worst, *row.means.values()), strict=True)
    return {**row.measures, **dict(always)}[name]


def _of_run(scores: TaskScores, name: str, run: Run) -> float | None:
    if name == list(scores.always)[1]:
        return float(np.percentile(list(run.people.values()) or [np.nan], scores.worst))
    if name not in scores.always:
        return run.measures[name]
    value = getattr(run.summary, scores.always[name])
    return None if value is None else float(value)


def _plain(name: str, value: float | None) -> str:
    return _MISSING if value is None else number(name, value)
