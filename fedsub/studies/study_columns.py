"""Columns of a study's tables: what all have, what the study asks for, what papers print."""

from __future__ import annotations

from fedsub.studies.study import Cell, Study

#: What every table has, as a study's file spells it, and as rows and summaries do.
ALWAYS = {
    "macro-f1": "macro_f1",
    "macro-f1-p10": "p10",
    "weighted-f1": "weighted_f1",
    "loss": "loss",
}
#: Where 12.000 would say more than there is.
_COARSE = ("rounds-to-", "seconds", "server-milliseconds")


def printed(study: Study, cell: Cell) -> dict[str, tuple[str, dict[str, float]]]:
    """Return what papers print: by title the measure, and numbers by row."""
    found: dict[str, tuple[str, dict[str, float]]] = {}
    for paper in study.papers:
        for name, numbers in paper.numbers.items() if paper.of(cell) else ():
            found.setdefault(f"{name}: {paper.source}", (name, {}))[1].update(numbers)
    return found


def asked(study: Study, cell: Cell) -> list[str]:
    """Return the measures that a table has beyond those of all."""
    names = (*study.show, *(name for name, _ in printed(study, cell).values()))
    return [name for name in dict.fromkeys(names) if name not in ALWAYS]


def number(name: str, value: float) -> str:
    """Return a measure's number with three digits, rounds and times with one."""
    return f"{value:.1f}" if name.startswith(_COARSE) else f"{value:.3f}"
