"""Markdown: tables, whatever their cells hold, and paragraphs."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

#: Columns of the page's paragraphs.
WIDTH = 118


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, whatever its cells hold."""
    yield _cells(titles)
    yield "|---" * len(titles) + "|"
    yield from map(_cells, rows)


def _cells(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def paragraph(text: str, first: str = "", others: str = "") -> str:
    """Return a text in lines of :data:`WIDTH` columns."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def bullet(text: str) -> str:
    """Return a text as an entry of a list."""
    return paragraph(text, "- ", "  ")
