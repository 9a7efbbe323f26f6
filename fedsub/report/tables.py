"""Tables of a run's results for the terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fedsub_server.method_summary import MethodSummary
from fedsub_server.remarks import remarks
from fedsub_server.tables import Column, encodings, legend, tables_of


def print_results(console: Console, summaries: Sequence[MethodSummary]) -> None:
    """Print what the methods of a run reached, how evenly, and what they sent."""
    for columns, rows in tables_of(summaries):
        console.print(table(rows, columns))
    console.print(f"Encoding: {encodings(summaries)}", highlight=False)
    for line in legend(summaries):
        console.print(line, highlight=False)
    for text in remarks(summaries):
        console.print(text, style="yellow", highlight=False, markup=False)


def table(summaries: Sequence[MethodSummary], columns: Sequence[Column]) -> Table:
    """Return a table, a row per method; a dash is what a run does not hold."""
    result = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        justify = "left" if column.is_text else "right"
        result.add_column(column.title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for summary in summaries:
        result.add_row(*(column.cell(summary) for column in columns))
    return result
