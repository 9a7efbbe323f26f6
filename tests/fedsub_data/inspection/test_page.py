import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError
from fedsub_data.inspection.inspection import Inspection, inspect_federation
from fedsub_data.inspection.page import write_inspection
from fedsub_data.inspection.plots import figures

FILES = {"report.html", "inspection.json", "class_shares.png", "samples_per_client.png",
         "prototype_similarity.png", "hopkins.png"}  # fmt: skip
VOID = {"meta", "img", "br", "hr", "link", "input"}
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Page(HTMLParser):
    """Collects tags, texts and images, and refuses tags that are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.images: list[dict[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            self.images.append({name: value or "" for name, value in attrs})
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def written(
    awkward: Federation, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Inspection, Path]:
    inspection, folder = inspect_federation(awkward, 0), tmp_path_factory.mktemp("inspected")
    write_inspection(inspection, folder / "deep" / "look")
    return inspection, folder / "deep" / "look"


def test_all_files_are_there_and_hold_what_was_inspected(written: tuple[Inspection, Path]) -> None:
    inspection, folder = written
    assert {path.name for path in folder.iterdir()} == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["look"]  # no draft left
    assert json.loads((folder / "inspection.json").read_text("utf-8")) == inspection.as_dict()
    for name, image in figures(inspection).items():
        assert (folder / name).read_bytes() == image
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_page_is_balanced_self_contained_and_escaped(written: tuple[Inspection, Path]) -> None:
    inspection, folder = written
    text = (folder / "report.html").read_text("utf-8")
    page = Page(text)
    assert "script" not in page.tags and "link" not in page.tags
    assert re.search(r"https?://|url\(|@import|src=\"(?!data:)|href", text, re.IGNORECASE) is None
    assert len(page.images) == 4
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.images)
    assert all(len(image["alt"]) > 20 and int(image["width"]) > 100 for image in page.images)
    for name in (*inspection.card.classes, *inspection.clients, inspection.card.name):
        assert name in page.texts
    assert "prefers-color-scheme: dark" in text


def test_the_page_says_counts_warnings_and_gains(written: tuple[Inspection, Path]) -> None:
    inspection, folder = written
    texts = Page((folder / "report.html").read_text("utf-8")).texts
    assert set(inspection.timing.warnings) <= set(texts) and len(inspection.timing.warnings) == 1
    assert "Samples that arrive later" in texts and "Mind before a run" in texts
    assert [str(n) for n in inspection.counts[1]] == ["40", "0", "0"]
    row = texts.index("p001")
    assert texts[row + 1 : row + 5] == ["40", "0", "0", "40"]


def test_no_warning_and_no_gains_where_there_are_none(
    make_synthetic: Callable[..., Federation], tmp_path: Path
) -> None:
    write_inspection(inspect_federation(make_synthetic(3), 0), tmp_path / "look")
    texts = Page((tmp_path / "look" / "report.html").read_text("utf-8")).texts
    assert "Samples that arrive later" not in texts and "Mind the split" not in texts


def test_a_folder_that_holds_something_is_refused_and_kept(
    make_synthetic: Callable[..., Federation], tmp_path: Path
) -> None:
    (tmp_path / "look").mkdir()
    (tmp_path / "look" / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="already holds something"):
        write_inspection(inspect_federation(make_synthetic(2), 0), tmp_path / "look")
    assert [path.name for path in tmp_path.rglob("*")] == ["look", "mine.txt"]


def test_an_empty_folder_is_filled(
    make_synthetic: Callable[..., Federation], tmp_path: Path
) -> None:
    (tmp_path / "look").mkdir()
    write_inspection(inspect_federation(make_synthetic(2), 0), tmp_path / "look")
    assert {path.name for path in (tmp_path / "look").iterdir()} == FILES


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_nothing_is_left_where_writing_fails(
    make_synthetic: Callable[..., Federation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("fedsub_data.inspection.page.page", fail)
    expected = DataError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected, match="disk full" if isinstance(error, OSError) else None):
        write_inspection(inspect_federation(make_synthetic(2), 0), tmp_path / "look")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_made_is_named(
    make_synthetic: Callable[..., Federation], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made"):
        write_inspection(inspect_federation(make_synthetic(2), 0), tmp_path / "file" / "look")


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path")
def test_a_browser_shows_all_four_figures(written: tuple[Inspection, Path], tmp_path: Path) -> None:
    assert BROWSER is not None
    _, folder = written
    # The page has no script and forbids any; a copy with one, allowed, says what was loaded.
    text = (folder / "report.html").read_text("utf-8")
    text = text.replace("style-src", "script-src 'unsafe-inline'; style-src", 1)
    count = (
        "<script>addEventListener('load', () => { document.title = 'widths ' + "
        "[...document.images].map(i => i.complete && i.naturalWidth).join(' ') + ' wide ' + "
        "(document.documentElement.scrollWidth - innerWidth); });</script></body>"
    )
    copy = tmp_path / "copy.html"
    copy.write_text(text.replace("</body>", count), "utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
               "--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}",
               "--window-size=420,800", "--dump-dom", copy.as_uri()]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r"<title>widths ([\d ]+) wide (-?\d+)</title>", shown)
    assert found is not None, shown[:500]
    widths = [int(width) for width in found[1].split()]
    assert len(widths) == 4 and min(widths) > 300
    assert int(found[2]) <= 0  # nothing makes a narrow page scroll sideways
