"""docs/methods.md says of the methods what their cards say."""

from __future__ import annotations

from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

from fedsub.report.methods import markdown
from fedsub_core.methods.table import METHODS, NOT_OFFERED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
COMMAND = "fedsub methods --markdown > docs/methods.md"


def test_the_page_is_what_the_cards_say() -> None:
    # Compared by hand: pytest's own account of two long texts that differ takes minutes.
    page, cards = PAGE.read_text("utf-8"), markdown(METHODS.values())
    if page != cards:
        differing = unified_diff(page.splitlines(), cards.splitlines(), "page", "cards", n=0)
        told = "\n".join(islice(differing, 20))
        pytest.fail(f"docs/methods.md is not what the cards say; renew it: {COMMAND}\n{told}")


def test_the_page_names_the_command_that_renews_it() -> None:
    assert f"<!-- Written by `{COMMAND}`" in PAGE.read_text("utf-8")


def test_the_page_says_which_methods_of_the_papers_are_not_offered() -> None:
    last = PAGE.read_text("utf-8").split("## Methods that are not offered")[1]
    assert "- **shufflefl**: it is not built. It moves samples between" in last
    assert all(f"- **{name}**: " in last for name in NOT_OFFERED)
