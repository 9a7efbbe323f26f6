"""Paths of this tree that documents name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")]
FOLDERS = (
    "fedsub|fedsub_core|fedsub_client|fedsub_data|fedsub_server|strategies|proto|docs|docker|"
    "benchmarks|tests|datasets"
)
NAMED = re.compile(rf"(?<![\w/.~-])((?:{FOLDERS})/[\w./-]*\w/?|[A-Z]+\.(?:md|cff))(?![\w*<{{-])")
#: What a page shows the reader to write.
WRITTEN = re.compile(r"^```\w+ file=(\S+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    named = set(NAMED.findall(text)) - set(WRITTEN.findall(text))
    # Images and volumes of containers have such names, too, as have the folders of runs.
    files = {name for name in named if re.search(r"\.\w+$|/$", name)}
    missing = {n for n in files if not any((base / n).exists() for base in (ROOT, page.parent))}
    assert not missing


def test_pages_name_something() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "docs/wire-format.md" in NAMED.findall(text) and "CONTRIBUTING.md" in NAMED.findall(text)
