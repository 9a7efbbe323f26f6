"""Documents are read by people who have never seen them: their sentences are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")]
#: What readers stumbled over, who had never seen these pages.
RIDDLES = re.compile(
    r"told from (0|chance|local|it)\b|to the letter|\bless local|cut in time|intervals hold 0\b|"
    r"whoever says so|nobody else as|gave no number|that of \d+[^.]* are left",
    re.IGNORECASE,
)
#: Words of a sentence; what stands in brackets and in backticks counts little.
MOST = 35


def sentences(text: str) -> list[str]:
    """Return the sentences of a page's paragraphs; tables, code and titles have none."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#", "<!--"))]
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*- )", "\n".join(lines)):
        plain = re.sub(r"`[^`]*`", "X", paragraph.replace("\n", " "))
        plain = re.sub(r"\([^()]*\)", "", plain)
        found += re.split(r"(?<=[.!?:;])\s", plain)
    return found


def test_what_a_sentence_is() -> None:
    text = "# A title\n\nOne (in brackets) `a b c`. Two: three.\n\n- four\n| a | table |\n"
    assert [one.strip() for one in sentences(text) if one.strip()] == [
        "One  X.", "Two:", "three.", "- four",
    ]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_long(page: Path) -> None:
    long = [one for one in sentences(page.read_text("utf-8")) if len(one.split()) > MOST]
    assert not long


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_speaks_in_riddles(page: Path) -> None:
    text = " ".join(page.read_text("utf-8").split())
    assert [found[0] for found in RIDDLES.finditer(text)] == []
