"""The data sets' cards: complete, true to the preparers, and strictly read."""

import re
import shutil
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.catalogue import catalogue
from fedsub_data.catalogue.catalogue import datasets_folder, house_names, names, read_dataset_card
from fedsub_data.catalogue.installed import GROUP, DataSet
from fedsub_data.preparing import dreamt, pamap2
from fedsub_data.preparing.hhar import preparer as hhar
from fedsub_data.preparing.options import (
    PREPARERS,
    DREAMTOptions,
    HHAROptions,
    NothingToChoose,
    PAMAP2Options,
    WESADOptions,
    WISDMOptions,
    options_of,
)
from fedsub_data.preparing.preparers import preparer
from fedsub_data.preparing.uci_har import preparer as uci_har
from fedsub_data.preparing.wesad import preparer as wesad
from fedsub_data.preparing.wesad.recording import CLASSES as WESAD_CLASSES
from fedsub_data.preparing.wisdm.raw import CLASSES as WISDM_CLASSES

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = ["dreamt", "hhar", "pamap2", "uci-har", "watch", "wesad", "wisdm"]
NAMES = RECORDINGS


def test_every_folder_has_a_card_and_a_readme_and_no_python() -> None:
    assert datasets_folder() == ROOT / "datasets"
    assert house_names() == NAMES and set(names()) >= set(NAMES)
    check_folders(ROOT / "datasets", NAMES)


def check_folders(datasets: Path, names: list[str]) -> None:
    """Check that there is a card and a readme of each, and nothing to run."""
    assert sorted(folder.name for folder in datasets.iterdir()) == names
    for folder in datasets.iterdir():
        assert {"card.toml", "README.md"} <= {path.name for path in folder.iterdir()}
        assert not list(folder.rglob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_complete(name: str) -> None:
    card = read_dataset_card(name)
    assert card.name == name
    urls = [card.source.page, *(file.url for file in card.files)]
    assert all(url.startswith("https://") for url in urls)
    sums = [s for s in (card.source.sha256, *(f.sha256 for f in card.files)) if s is not None]
    assert all(re.fullmatch("[0-9a-f]{64}", s) for s in sums)
    assert (card.prepare is None) == (card.source.access == "installed")


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_names_licence_citation_and_every_file(name: str) -> None:
    check_readme(ROOT / "datasets" / name)


def check_readme(folder: Path) -> None:
    """Check that a data set's page has what its card says."""
    name = folder.name
    card = read_dataset_card(name)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert readme.startswith(f"# {name}: ")
    assert card.source.page in readme
    for heading in ("**Licence.**", "**Cite.**", "**As a federation.**", "**Mind.**"):
        assert heading in readme
    for file in card.files:
        assert f"[{file.name}]({file.url})" in readme
        assert file.sha256 is None or file.sha256 in readme
        assert file.bytes is None or f"{file.bytes:,}" in readme
    authors = card.source.citation.split(" and ")[0].split(",")[0].split()[-1]
    assert authors in readme
    for word in card.labels.classes if card.labels is not None else ():
        assert word in readme


def test_the_checksums_known() -> None:
    known = {name: [(f.bytes, f.sha256) for f in read_dataset_card(name).files] for name in NAMES}
    known_sums = {name for name, files in known.items() if any(s for _, s in files)}
    assert known_sums == {"hhar", "uci-har", "wisdm"}
    assert known["wisdm"][0][0] == 11_404_612
    assert known["pamap2"] == [(None, None)]
    access = {name: read_dataset_card(name).source.access for name in NAMES}
    others = {"dreamt": "credentialed", "watch": "installed"}
    assert access == dict.fromkeys(NAMES, "open") | others


def test_the_cards_say_what_the_preparers_do() -> None:
    assert sorted(PREPARERS) == NAMES
    classes: dict[str, tuple[str, ...]] = {
        "dreamt": dreamt.CLASSES["sleep-wake"][0],
        "hhar": hhar.CLASSES,
        "pamap2": tuple(pamap2.ACTIVITIES.values()),
        "uci-har": uci_har.CLASSES,
        "wesad": tuple(WESAD_CLASSES.values()),
        "wisdm": WISDM_CLASSES,
    }
    windows = {
        "dreamt": (DREAMTOptions().window_s, DREAMTOptions().overlap),
        "hhar": (HHAROptions().window_s, 0.0),
        "pamap2": (PAMAP2Options().window_s, PAMAP2Options().overlap),
        "uci-har": (uci_har.WINDOW / uci_har.RATE_HZ, 0.5),
        "wesad": (wesad.WINDOW_S[WESADOptions().signals], WESADOptions().overlap),
        "wisdm": (WISDMOptions().window_s, WISDMOptions().overlap),
    }
    for name in classes:
        card = read_dataset_card(name)
        assert card.labels is not None and card.windowing is not None
        assert card.labels.classes == classes[name], name
        assert (card.windowing.window_s, card.windowing.overlap) == windows[name], name
    channels = {"pamap2": pamap2.CHANNELS, "uci-har": uci_har.SIGNALS, "dreamt": dreamt.SIGNALS}
    for name, named in channels.items():
        signals = read_dataset_card(name).signals
        assert signals is not None and signals.channels == named


def test_an_unknown_name_gets_the_nearest() -> None:
    with refused(DataError, "'wisdom'", "'wisdm'"):
        read_dataset_card("wisdom")
    with pytest.raises(DataError, match=r"unknown data set '\.\./watch'"):
        read_dataset_card("../watch")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The table of wisdm's card; `written` reads it back from a folder of its own."""
    (tmp_path / "wisdm").mkdir()
    monkeypatch.setattr(catalogue, "datasets_folder", lambda: tmp_path)
    return tomllib.loads((ROOT / "datasets" / "wisdm" / "card.toml").read_text(encoding="utf-8"))


def written(tmp_path: Path, table: dict[str, Any]) -> Path:
    path = tmp_path / "wisdm" / "card.toml"
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return path


CHANGES: list[tuple[list[str | int], object, str]] = [
    (["task"], None, "key 'task' is missing"),
    (["source", "licence"], None, "key 'source.licence' is missing"),
    (["files", 0, "url"], None, r"key 'files\[0\]\.url' is missing"),
    (["source", "license"], "MIT", r"unknown key 'source\.license'.*Did you mean 'licence'"),
    (["files", 0, "sha25"], "0", r"unknown key 'files\[0\]\.sha25'.*Did you mean 'sha256'"),
    (["people"], "36", "people: got '36', expected a whole number"),
    (["people"], True, "people: got True, expected a whole number"),
    (["people"], 0, "people: got 0, expected a number above 0"),
    (["name"], "wisdom", "name: got 'wisdom', expected the folder's name 'wisdm'"),
    (["source", "terms"], "  ", "source.terms: got '  ', expected text"),
    (["source"], "the web", "source: got 'the web', expected a table"),
    (["source", "access"], "free", "source.access: got 'free', expected one of open"),
    (["source", "access"], "installed", "source.file: got None, expected a value where"),
    (["source", "access"], "credentialed", "source.apply: got None, expected a value where"),
    (["source", "apply"], "https://a.b", "source.apply: got 'https://a.b', expected a value"),
    (["source", "page"], "http://a.b", "source.page: got 'http://a.b', expected an address"),
    (["files"], None, "files: got 0, expected some if access is open"),
    (["files"], {}, r"files: got \{\}, expected a list"),
    (["files", 0, "name"], "../x", r"files\[0\]\.name: got '../x', expected a plain file name"),
    (["files", 0, "url"], "file:///x", r"files\[0\]\.url: got 'file:///x', expected an address"),
    (["files", 0, "sha256"], "A" * 64, r"files\[0\]\.sha256: got 'A+', expected 64 hex digits"),
    (["files", 0, "bytes"], -1, r"files\[0\]\.bytes: got -1, expected a number above 0"),
    (["signals", "channels"], ["x", "x"], r"signals\.channels: got .*, expected no entry twice"),
    (["signals", "channels"], [1], r"signals\.channels\[0\]: got 1, expected text"),
    (["signals", "sampling_rate_hz"], 0, "sampling_rate_hz: got 0.0, expected a number above 0"),
    (["labels", "classes"], ["a"], r"labels\.classes: got \('a',\), expected two or more"),
    (["windowing", "overlap"], 1, r"windowing\.overlap: got 1\.0, expected a share"),
    (["windowing", "window_s"], float("nan"), r"windowing\.window_s: got nan, expected a number"),
    (["windowing", "time_ordered"], 1, r"windowing\.time_ordered: got 1, expected true or false"),
]


@pytest.mark.parametrize(("where", "value", "message"), CHANGES)
def test_a_wrong_card_is_refused(
    table: dict[str, Any], tmp_path: Path, where: list[str | int], value: object, message: str
) -> None:
    inner: Any = table
    for key in where[:-1]:
        inner = inner[key]
    if value is None:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    path = written(tmp_path, table)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: {message}"):
        read_dataset_card("wisdm")


def test_the_card_that_the_changes_start_from_is_read(
    table: dict[str, Any], tmp_path: Path
) -> None:
    table["signals"]["sampling_rate_hz"] = 20
    written(tmp_path, table)
    card = read_dataset_card("wisdm")
    assert card.signals is not None and card.signals.sampling_rate_hz == 20.0
    assert (card.files[0].name, len(card.files)) == ("WISDM_ar_latest.tar.gz", 1)


def test_what_is_no_toml_is_refused(table: dict[str, Any], tmp_path: Path) -> None:
    written(tmp_path, table).write_bytes(b"name = \xff")
    with pytest.raises(DataError, match=r"card\.toml: cannot be read as TOML"):
        read_dataset_card("wisdm")


def test_cards_are_found_in_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "datasets").mkdir()  # another project's package of that name
    module = tmp_path / "fedsub_data" / "catalogue" / "catalogue.py"
    monkeypatch.setattr(catalogue, "__file__", str(module))
    with pytest.raises(DataError, match=r"cards are at none of .*Reinstall fedsub"):
        house_names()
    shutil.copytree(ROOT / "datasets", tmp_path / "fedsub_data" / "cards")
    assert house_names() == NAMES
    assert read_dataset_card("watch").source.file == "recordings.npz"


def a_set(folder: Path) -> DataSet:
    return DataSet(folder, "fedsub_data.preparing.watch", NothingToChoose)


def test_a_package_offers_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(ROOT / "datasets" / "watch", folder)
    card = (folder / "card.toml").read_text("utf-8").replace('name = "watch"', 'name = "mine"', 1)
    (folder / "card.toml").write_text(card, "utf-8")
    for name, value in (("MINE", a_set(folder)), ("OTHER", "a text")):
        monkeypatch.setitem(globals(), name, value)
    points = {
        name: EntryPoint(name, f"{__name__}:{attribute}", GROUP)
        for name, attribute in (("mine", "MINE"), ("other", "OTHER"), ("lost", "LOST"))
    }
    for module in ("catalogue.catalogue", "catalogue.installed", "preparing.preparers"):
        monkeypatch.setattr(f"fedsub_data.{module}.installed", lambda: points)
    assert {"mine", "watch"} <= set(names())
    assert read_dataset_card("mine").source.file == "recordings.npz"
    assert options_of("mine") is NothingToChoose
    assert preparer("mine").__name__ == "fedsub_data.preparing.watch"  # type: ignore[attr-defined]
    with refused(DataError, "data set 'other'", got="OTHER", expected="DataSet"):
        read_dataset_card("other")
    with refused(DataError, "data set 'lost'", "AttributeError"):
        read_dataset_card("lost")
