"""The cards of pictures, texts and graphs: complete, true to the preparers, strictly read."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import fedsub_papers
from fedsub_core.errors import DataError
from fedsub_core.packages import title_of
from fedsub_data.catalogue.catalogue import names, read_dataset_card
from fedsub_data.catalogue.installed import DataSet, installed
from fedsub_data.preparing.options import (
    NothingToChoose,
)
from fedsub_data.preparing.preparers import preparer
from fedsub_papers.tests.again import again
from tests.fedsub.commands.test_data import error, fedsub
from tests.fedsub_data.catalogue import test_catalogue as house
from tests.fedsub_data.catalogue.test_catalogue import check_folders, check_readme

DATASETS = Path(fedsub_papers.__file__).parent / "datasets"
PICTURES = [
    *("cifar10", "cifar100", "digits", "mnist", "pacs", "svhn", "tiny-imagenet"),
    "usps",
]


GRAPHS = ["citeseer", "cora", "ogbn-arxiv"]


COLLECTIONS = ["ag-news", *GRAPHS, *PICTURES]


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_collection_s_card_says_what_its_preparer_does(name: str) -> None:
    card = read_dataset_card(name)
    module: Any = preparer(name)
    assert card.samples is not None
    if card.labels is not None:
        assert card.labels.classes == module.CLASSES
    of = {"ag-news": ("tokens", "texts"), **dict.fromkeys(GRAPHS, ("node", "nodes"))}
    kind, many = of.get(name, ("image", "images"))
    assert card.samples.kind == kind
    assert card.holds.endswith(f" {many}")


OF_COLLECTIONS: list[tuple[list[str], object, str]] = [
    (["people"], 30, "people: got 30, expected nothing beside samples"),
    (["samples", "kind"], "sound", "samples.kind: got 'sound', expected one of image, tokens"),
    (["samples", "count"], 0, "samples.count: got 0, expected a number above 0"),
    (["samples", "classes"], 11, "samples.classes: got 11, expected .* as labels.classes has"),
    (["samples", "parts"], [], r"samples.parts: got \(\), expected at least one"),
    (["samples"], None, "people: got None, expected it, or samples of a collection"),
]


@pytest.mark.parametrize(("where", "value", "message"), OF_COLLECTIONS)
def test_a_wrong_card_of_a_collection_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: list[str],
    value: object,
    message: str,
) -> None:
    monkeypatch.setattr(
        "fedsub_data.catalogue.catalogue.installed_data_set",
        lambda name: DataSet(tmp_path / name, "", NothingToChoose),
    )
    (tmp_path / "mnist").mkdir()
    table = tomllib.loads((DATASETS / "mnist" / "card.toml").read_text(encoding="utf-8"))
    inner: Any = table
    for key in where[:-1]:
        inner = inner[key]
    inner.pop(where[-1], None)
    if value is not None:
        inner[where[-1]] = value
    path = tmp_path / "mnist" / "card.toml"
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: {message}"):
        read_dataset_card("mnist")


#: No two independent records of these agree, or they lie at no address.
UNKNOWN = ["citeseer", "pacs", "usps"]


def test_every_folder_has_a_card_and_a_readme_and_no_python() -> None:
    check_folders(DATASETS, sorted(COLLECTIONS))


test_a_card_is_complete = again(house.test_a_card_is_complete, "name", COLLECTIONS)


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_readme_names_licence_citation_and_every_file(name: str) -> None:
    check_readme(DATASETS / name)


def test_the_checksums_known() -> None:
    for name in COLLECTIONS:
        card = read_dataset_card(name)
        assert card.source.access == ("by-hand" if name == "pacs" else "open")
        assert all((f.bytes and f.sha256) or name in UNKNOWN for f in card.files)
        assert name not in UNKNOWN or not all(f.sha256 for f in card.files) or not card.files


def test_every_one_is_offered_and_shown() -> None:
    ours = {name for name, one in installed().items() if title_of(one) == "fedsub_papers"}
    assert ours == set(COLLECTIONS) <= set(names())
    for name in COLLECTIONS:
        assert "classes" in fedsub("show", name).output
    listed = fedsub("list").output.split("From the package fedsub_papers:")
    assert all(name in listed[1] and name not in listed[0] for name in ("ag-news", "tiny-imagenet"))
    assert "Download them by hand from https://domaingen" in error("fetch", "pacs")
