"""Reads docs/wire-format.md: sections, tables, and what stands in them as code."""

import re
from pathlib import Path

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "wire-format.md").read_text("utf-8")


def part_of_page(begin: str, end: str = "\n\n**|\n## ") -> str:
    """Return the page's text after `begin`, up to the next record or heading."""
    assert DOCUMENT.count(begin) == 1, begin
    stops = "|".join(re.escape(stop) for stop in end.split("|"))
    return re.split(stops, DOCUMENT.split(begin)[1])[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def code(cell: str) -> list[str]:
    """Return what stands between backquotes."""
    return re.findall(r"`([^`]+)`", cell)
