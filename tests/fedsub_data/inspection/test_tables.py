import io
from typing import cast

import numpy as np
from rich.console import Console

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_data.inspection.inspection import inspect_federation
from fedsub_data.inspection.tables import arrival_rows, class_rows, fact_rows, tables


def test_rows(awkward: Federation) -> None:
    seen = inspect_federation(awkward, 0)
    rows = class_rows(seen)
    assert [row[0] for row in rows] == list(awkward.card.classes)
    assert [int(row[1]) for row in rows] == seen.counts.sum(axis=0).tolist()
    assert sum(float(row[2].rstrip("%")) for row in rows) == 100
    assert arrival_rows(seen) == [("1", "180", "5"), ("10", "10", "1"), ("20", "10", "1")]
    assert ("overlap of windows", "the card says 50%") in fact_rows(seen)


def test_facts_of_raw_windows_with_times() -> None:
    x = np.zeros((4, 2, 8), np.float32)
    x[1:, 0, 0] = 1
    y = np.array([0, 1, 0, 1])
    card = Card("f", "t", ("a", "b"), ("u", "v"), "g", 4.0, 2.0, 0.5)
    made = Federation(card, {"p": ClientData("p", x, y, np.arange(4.0))})
    facts: dict[str, str] = dict(
        cast(list[tuple[str, str]], fact_rows(inspect_federation(made, 0)))
    )
    assert facts["one sample"].startswith("2 x 8 channels x time at 4 Hz; compared by")
    assert facts["overlap of windows"] == "the card says 50%, their times show 50%"
    assert facts["time is known as"] == "seconds from t"
    assert facts['split = "auto" chooses'] == "blocked"


def test_terminal(awkward: Federation) -> None:
    out = io.StringIO()
    console = Console(width=100, file=out)
    console.print(tables(inspect_federation(awkward, 0)))
    text = out.getvalue()
    assert "<b>Walk</b> & run" in text and "Warning: The order in time is not known" in text
    assert "clients that gain some" in text
