"""The terminal's tables of a run's results."""

import re
from dataclasses import fields, replace
from typing import Any

import pytest
from rich.console import Console

from fedsub.report.tables import print_results, table
from fedsub_core.methods.table import METHODS
from fedsub_server.method_summary import MethodSummary
from fedsub_server.tables import BYTES, REACHED

FEDSUB = MethodSummary(
    method="fedsub",
    tested="trained",
    encoding="delta,int8 up, float32 down",
    rounds=4,
    evaluated_round=4,
    best_by="last",
    best_round=None,
    clients=5,
    people=5,
    left_out="",
    diverged="",
    in_rounds="",
    macro_f1=0.7,
    macro_f1_ci95=0.196,
    macro_f1_p10=0.54,
    macro_f1_std=0.141,
    macro_f1_min=0.5,
    macro_f1_max=0.9,
    accuracy=0.72,
    accuracy_std=0.1,
    accuracy_min=0.5,
    accuracy_max=1.0,
    weighted_f1=0.35,
    loss=1.4,
    sparsity_weights=0.8,
    sparsity_all=0.7916,
    bytes_up=14_000.0,
    full_models_up_papers=56.0,
    full_models_up_union=21.0,
    full_models_up_sent=14.0,
    full_models_up_flower=14.1,
    full_models_down_sent=28.0,
    full_models_down_flower=28.1,
    full_models_evaluation_sent=7.0,
    full_models_evaluation_flower=7.1,
    by_capacity={},
    loss_fall=0.01,
    own_heads_clients=0,
    own_heads_macro_f1=None,
    own_heads_macro_f1_ci95=None,
    own_heads_macro_f1_p10=None,
    own_heads_weighted_f1=None,
    own_heads_loss=None,
    twin="local",
    gain_over_twin=0.1,
    worse_than_twin=0.4,
    epsilon=None,
    epsilon_delta=None,
    epsilon_of=None,
    seconds=3.0,
    server_milliseconds=12.34,
    memory=250_000_000,
    backend="kernels",
)
LOCAL = replace(
    FEDSUB,
    method="local",
    encoding=None,
    macro_f1_ci95=None,
    bytes_up=0.0,
    full_models_up_papers=None,
    full_models_up_union=None,
    full_models_up_sent=0.0,
    sparsity_weights=None,
    sparsity_all=None,
    by_capacity={},
    twin=None,
    gain_over_twin=None,
    worse_than_twin=None,
)
NOTHING: dict[str, Any] = {
    f.name: None for f in fields(LOCAL) if f.name.startswith(("macro_f1", "accuracy"))
}
UNTESTED = replace(LOCAL, method="ditto", weighted_f1=None, loss=None, **NOTHING)


def printed(console: Console, *methods: MethodSummary) -> str:
    with console.capture() as capture:
        print_results(console, methods)
    return capture.get()


def cells(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def test_there_is_a_row_per_method_in_every_table() -> None:
    text = printed(Console(width=100), FEDSUB, LOCAL, UNTESTED)
    rows = [row for row in cells(text) if row[0] in ("fedsub", "local", "ditto")]
    assert rows == [
        ["fedsub", "trained", "0.700 ± 0.196", "0.540", "0.350", "1.400", "40%"],
        ["local", "trained", "0.700", "0.540", "0.350", "1.400", "-"],
        ["ditto", "trained", "-", "-", "-", "-", "-"],
        ["fedsub", "0.141", "0.50", "0.90", "0.720", "0.100", "0.50", "1.00", "80.0%", "79.2%"],
        ["local", "0.141", "0.50", "0.90", "0.720", "0.100", "0.50", "1.00", "-", "-"],
        ["ditto", *["-"] * 9],
        ["fedsub", "13.7 KiB", "14.000", "21.000", "56.000", "28.000", "7.000"],
        ["local", "0 B", "0.000", "-", "-", "28.000", "7.000"],
        ["ditto", "0 B", "0.000", "-", "-", "28.000", "7.000"],
    ]
    for title in (
        "tested",
        "macro F1",
        "± 95 %",
        "10th",
        "worse than",
        "local",
        "bytes up,",
        "down to",
    ):
        assert title in text
    assert "Encoding: delta,int8 up, float32 down: fedsub; unknown: local, ditto" in text


def test_a_column_of_dashes_alone_is_left_out() -> None:
    assert "papers'" in printed(Console(width=100), FEDSUB, LOCAL)
    text = printed(Console(width=100), LOCAL, UNTESTED)
    assert not re.search("papers'|zeros|worse than|parentheses", text)
    assert "Models up and down: full models in float32" in text


def test_a_table_holds_the_columns_it_is_given() -> None:
    (two,) = [table([FEDSUB], columns) for columns in (REACHED[:2],)]
    assert [column.header for column in two.columns] == ["\nmethod", "\ntested"]
    assert [column.justify for column in table([FEDSUB], BYTES[:2]).columns] == ["left", "right"]


@pytest.mark.parametrize("color", [None, "truecolor"])
def test_the_tables_fit_a_terminal_of_80_columns(color: str | None) -> None:
    longest = max(METHODS, key=len)
    busy = replace(
        FEDSUB, method=longest, tested="received", bytes_up=1023.9 * 2**20, worse_than_twin=1.0
    )
    console = Console(width=80, color_system=color, force_terminal=color is not None)  # type: ignore[arg-type]
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed(console, busy))
    assert "…" not in text and text.count(longest) == 4
    assert max(map(len, text.splitlines())) <= 80
    assert [row[1] for row in cells(text) if len(row) == 7 and "MiB" in row[1]] == ["1023.9 MiB"]
