"""The site's page on methods, which is made of their cards: each card is there."""

import re
import runpy
from pathlib import Path

import pytest

from fedsub_core.methods.table import METHODS, NOT_OFFERED

ROOT = Path(__file__).resolve().parents[2]
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as the site's build writes it."""
    folder = tmp_path_factory.mktemp("sources")
    SITE["write_sources"](folder)
    return (folder / "pages" / "methods.md").read_text("utf-8")


def test_every_card_has_a_row_and_a_section(page: str) -> None:
    files = (ROOT / "fedsub_core" / "methods").glob("*.py")
    texts = (path.read_text("utf-8") for path in files)
    cards = {found[1] for text in texts if (found := re.search(r'^    name="([^"]+)"', text, re.M))}
    assert len(cards) > 20 and cards <= set(METHODS)
    assert set(re.findall(r"^\| \[`([^`]+)`\]\(#\1\) \|", page, re.M)) == set(METHODS)
    sections = dict(re.findall(r"^## (\S+)$(.*?)(?=^## )", page, re.M | re.S))
    for name, card in METHODS.items():
        text = " ".join(sections[name].split())
        assert f"{card.paper}." in text and f"`{name}.tested`" in text, name


def test_the_page_says_which_methods_of_the_papers_are_not_offered(page: str) -> None:
    last = page.split("## Methods that are not offered")[1]
    assert "- **shufflefl**: it is not built. It moves samples between" in last
    assert all(f"- **{name}**: " in last for name in NOT_OFFERED)


def test_the_page_is_not_kept(page: str) -> None:
    assert not (ROOT / "docs" / "methods.md").exists(), "it is made when the site is built"
    assert "[`studies/README.md`](studies.md)" in page and "](contributing.md)" in page
