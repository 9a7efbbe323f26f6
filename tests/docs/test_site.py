"""The documents as a site: all pages are there, links lead somewhere, nobody else is asked."""

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

import fedsub

ROOT = Path(__file__).resolve().parents[2]
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))


class Names(HTMLParser):
    """The ids of a page, where its links lead, what a browser asks for to show it, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.as_it_stands, self.texts = 0, list[str]()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.asked: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        if not self.as_it_stands:
            self.texts.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        self.as_it_stands -= tag in ("pre", "script", "style")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.as_it_stands += tag in ("pre", "script", "style")
        named = {name: value or "" for name, value in attrs}
        self.ids.add(named.get("id", ""))
        if tag == "a":
            self.links.append(named.get("href", ""))
        elif tag == "link":
            self.asked.append(named["href"])
        self.asked.append(named.get("src", ""))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Names]:
    folder = tmp_path_factory.mktemp("site") / "site"
    SITE["build"](folder)
    return {path: Names(path.read_text("utf-8")) for path in folder.glob("*.html")}


@pytest.mark.slow
def test_every_document_is_a_page(pages: dict[Path, Names]) -> None:
    sources: list[str] = [source for _, _, source in SITE["PAGES"]]
    folder = ROOT / "docs"
    found = [*folder.glob("*.md"), *folder.glob("notebooks/*.ipynb")]
    documents = {path.relative_to(ROOT).as_posix() for path in found}
    assert documents <= set(sources)
    built = {Path(SITE["page_name"](source)).stem for source in sources}
    assert {path.stem for path in pages} == built | {"404"} and len(built) == len(sources)


@pytest.mark.slow
def test_links_lead_somewhere_and_no_other_host_is_asked(pages: dict[Path, Names]) -> None:
    lost = []
    for path, page in pages.items():
        if path.stem == "404":  # its links begin at the host's root
            continue
        for link in (*page.links, *page.asked):
            if link.startswith(("https://", "http://")):
                assert link in page.links and link not in page.asked, f"{path.name} asks {link}"
                continue
            file, mark = urldefrag(unquote(link))
            target = (path.parent / file).resolve() if file else path
            known = not mark or target not in pages or mark in pages[target].ids
            if not target.exists() or not known:
                lost.append((path.name, link))
    assert not lost
    for path in next(iter(pages)).parent.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", path.read_text("utf-8")), path


@pytest.mark.slow
def test_files_that_pages_name_are_links(pages: dict[Path, Names]) -> None:
    linked: Any = SITE["linked"]
    assert linked("see `docs/data.md`", "README.md") == "see [`docs/data.md`](data.md)"
    assert linked("[a](../docker/README.md#x)", "docs/data.md") == "[a](docker.md#x)"
    assert linked("[a](../setup.py)", "docs/data.md") == "a", "the site has no code"
    assert linked("`fedsub methods`", "README.md") == "[`fedsub methods`](methods.md)"
    code = "```\n`docs/data.md`\n```\n"
    assert linked(code, "README.md") == code
    links = {path.stem: page.links for path, page in pages.items()}
    assert "studies.html" in links["which-method"] and "your-data.html" in links["index"]


@pytest.mark.slow
def test_results_are_files_of_which_pages_show_the_tables(
    pages: dict[Path, Names], tmp_path: Path
) -> None:
    files: set[str] = set()
    for folder, page in (("studies", "studies.html"), ("benchmarks", "benchmarks.html")):
        named = SITE["TABLE"].findall((ROOT / folder / "README.md").read_text("utf-8"))
        there = {f"results/{path.name}" for path in (ROOT / folder / "results").iterdir()}
        assert set(named) == there and len(named) == len(there) > 20, "each once"
        assert not files & there, "in the site they lie in one folder"
        files |= there
        path = next(path for path in pages if path.name == page)
        assert there <= set(pages[path].links)
        assert path.read_text("utf-8").count("<table>") >= len(there)
    (tmp_path / "results").mkdir()
    file = tmp_path / "results" / "a.csv"
    file.write_text("row,macro F1,written\nlocal,0.8,2026-01-02\nfedavg,a|b,2026-01-01\n")
    text = "Before.\n\nTable: [`results/a.csv`](results/a.csv)\n\nAfter.\n"
    with_tables: Any = SITE["with_tables"]
    assert with_tables(text, tmp_path).splitlines() == [
        "Before.", "", "|  | macro F1 |", "|---|---|", "| local | 0.8 |", "| fedavg | a\\|b |", "",
        "[CSV](results/a.csv), written 2026-01-01 to 2026-01-02", "", "After.",
    ]  # fmt: skip
    file.write_text("row,macro F1,written\nlocal,2026-01-02\n")
    with pytest.raises(SystemExit, match=r"a\.csv: expected rows of 3 cells, the last written"):
        with_tables(text, tmp_path)


@pytest.mark.slow
def test_commands_and_options_are_there(pages: dict[Path, Names]) -> None:
    texts = {path.stem: path.read_text("utf-8") for path in pages}
    assert "fedsub-deploy-local" in pages[next(p for p in pages if p.stem == "commands")].ids
    assert "round-timeout" in texts["options"] and "--upload-encoding" in texts["commands"]


@pytest.mark.slow
def test_every_public_name_is_there_with_what_it_says(pages: dict[Path, Names]) -> None:
    path = next(path for path in pages if path.stem == "python")
    headings = {name.rpartition(".")[2] for name in pages[path].ids if name.startswith("fedsub.")}
    assert set(fedsub.__all__) <= headings
    assert "Train a method, and others beside it" in path.read_text("utf-8")


@pytest.mark.slow
def test_no_page_shows_markup_and_tables_have_each_name_its_type(pages: dict[Path, Names]) -> None:
    shown = [
        (path.name, text) for path, page in pages.items() for text in page.texts if "`" in text
    ]
    assert not shown
    path = next(path for path in pages if path.stem == "python")
    rows = re.findall(
        r'<tr class="doc-section-item">(.*?)</tr>', path.read_text("utf-8"), re.DOTALL
    )
    plain = [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]
    assert sum(row.startswith("rounds int | None") for row in plain) == 2, "not the line's first"
    assert "force bool whether a file that is there is replaced. False" in plain
    assert not [row for row in plain if ", " in row.partition(" ")[0]]
    assert sum(row.startswith("ConfigError ") for row in plain) > 3


def test_docstrings_have_one_name_a_line() -> None:
    one_by_one = runpy.run_path(str(ROOT / "docs" / "docstrings.py"))["one_by_one"]
    text = """Return :class:`~a.b.C` of ``x``.

Parameters
----------
a, **b : what both
    are.
c
    One, or another: of these.

Raises
------
ConfigError, DataError
    Where not.

More: of it.
"""
    lines = one_by_one(text).splitlines()
    assert lines[0] == "Return `a.b.C` of ``x``."
    assert lines[2:10] == [
        "Parameters", "----------", "a", "    what both", "    are.",
        "**b", "    what both", "    are.",
    ]  # fmt: skip
    assert lines[10:12] == ["c", "    One, or another: of these."]
    errors = ["ConfigError", "    Where not.", "", "DataError", "    Where not.", ""]
    assert lines[-7:] == [*errors, "More: of it."]


def test_the_picture_is_what_its_code_draws(tmp_path: Path) -> None:
    pictures = runpy.run_path(str(ROOT / "docs" / "pictures.py"))
    pictures["draw"](tmp_path / "round.svg")
    drawn = (tmp_path / "round.svg").read_text("utf-8")
    kept = pictures["PICTURE"].read_text("utf-8")
    # Other versions of Matplotlib write numbers otherwise.
    assert re.findall(">([^<>]+)</text>", drawn) == re.findall(">([^<>]+)</text>", kept)
    assert "Ann gets what both have" in kept and drawn.count("<path") == kept.count("<path") > 100
