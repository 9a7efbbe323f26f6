"""Fetching from a real server on this machine: terms, whole files, and files that are wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.catalogue.catalogue import read_dataset_card
from fedsub_data.catalogue.dataset_card import OfficialFile
from fedsub_data.catalogue.fetch import fetch, terms


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def card_of(*files: OfficialFile) -> Any:
    return replace(read_dataset_card("wisdm"), files=files)


@pytest.mark.parametrize("size", [None, 307_200])
def test_a_good_file_comes_whole(server: Any, tmp_path: Path, size: int | None) -> None:
    said: list[str] = []
    folder = tmp_path / "new" / "folder"
    paths = fetch(server.card("good", size=size), folder, True, False, report=said.append)
    assert paths == [folder / "data.zip"]
    assert paths[0].read_bytes() == server.body
    assert left(folder) == ["data.zip"]
    assert said == [f"{paths[0]}: fetched, sha256 as expected, {server.sha256}"]


def test_the_progress_bar_is_on_standard_error(
    server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(server.card("good"), tmp_path, accept_terms=True)
    out, err = capsys.readouterr()
    assert "100%" in err and "307k/307k" in err
    assert out == f"{tmp_path / 'data.zip'}: fetched, sha256 as expected, {server.sha256}\n"
    (tmp_path / "data.zip").unlink()
    fetch(server.card("good"), tmp_path, accept_terms=True, progress_bar=False)
    assert capsys.readouterr().err == ""


def test_without_a_checksum_size_is_compared_and_the_sha256_said(
    server: Any, tmp_path: Path
) -> None:
    said: list[str] = []
    card = server.card("good", None, len(server.body))
    fetch(card, tmp_path / "a", True, False, report=said.append)
    fetch(server.card("good", None), tmp_path / "b", True, False, report=said.append)
    assert "its size is as expected, but no official checksum is known" in said[0]
    assert "fetched, but no official checksum is known" in said[1]
    assert all(line.endswith(f"sha256 {server.sha256}") for line in said)
    with refused(DataError, got="307,200 bytes", expected="307,201 bytes"):
        fetch(server.card("good", None, len(server.body) + 1), tmp_path / "c", True, False)
    assert left(tmp_path / "c") == []


def test_a_wrong_checksum_leaves_nothing(server: Any, tmp_path: Path) -> None:
    wrong = "0" * 64
    with refused(DataError, "sha256", wrong, got=server.sha256):
        fetch(server.card("good", wrong), tmp_path, True, False)
    assert left(tmp_path) == []
    assert len(server.asked) == 1  # the same file would come again


def test_a_file_that_is_there_is_not_fetched_again(server: Any, tmp_path: Path) -> None:
    said: list[str] = []
    card = server.card("good")
    first = fetch(card, tmp_path, True, False, report=said.append)
    assert fetch(card, tmp_path, True, False, report=said.append) == first
    assert len(server.asked) == 1
    assert said[1] == f"{first[0]}: there already, sha256 as expected, {server.sha256}"


@pytest.mark.parametrize("known", ["checksum", "size"])
def test_another_file_of_that_name_is_left_alone(server: Any, tmp_path: Path, known: str) -> None:
    (tmp_path / "data.zip").write_bytes(b"mine")
    sha256 = server.sha256 if known == "checksum" else None
    card = server.card("good", sha256, len(server.body))
    with pytest.raises(DataError, match=r"there already, and was left as it is: got .*Move away"):
        fetch(card, tmp_path, True, False)
    assert (tmp_path / "data.zip").read_bytes() == b"mine"
    assert server.asked == []


def test_a_folder_or_a_dangling_link_in_the_way_is_refused(server: Any, tmp_path: Path) -> None:
    card = server.card("good")
    (tmp_path / "data.zip").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"it is no file, expected data\.zip"):
        fetch(card, tmp_path, True, False)
    (tmp_path / "file").touch()
    with refused(DataError, "file", "File exists"):
        fetch(card, tmp_path / "file", True, False)
    with refused(DataError, "file/x", "Not a directory"):
        fetch(card, tmp_path / "file" / "x", True, False)
    assert server.asked == []


def test_only_the_files_asked_for(server: Any, tmp_path: Path) -> None:
    files = [
        OfficialFile(name, server.url("good"), None, server.sha256) for name in ("a.csv", "b.csv")
    ]
    assert fetch(card_of(*files), tmp_path, True, False, ["b.csv"]) == [tmp_path / "b.csv"]
    assert left(tmp_path) == ["b.csv"]
    with refused(DataError, "'c.csv'", "a.csv, b.csv"):
        fetch(card_of(*files), tmp_path, True, False, ["c.csv"])
    assert len(fetch(card_of(*files), tmp_path, True, False)) == 2
    assert len(server.asked) == 2


def test_terms_come_first(tmp_path: Path) -> None:
    card = read_dataset_card("wisdm")
    text = terms(card)
    for part in (card.source.licence, card.source.terms, card.source.citation, card.files[0].url):
        assert part in text
    assert "WISDM_ar_latest.tar.gz, 11,404,612 bytes" in text
    with refused(DataError, "wisdm", "--accept-terms"):
        fetch(card, tmp_path / "new", accept_terms=False)
    assert left(tmp_path) == []


def test_what_cannot_be_fetched_says_how_to_go_on(tmp_path: Path) -> None:
    dreamt = read_dataset_card("dreamt")
    assert "apply at: https://physionet.org/content/dreamt/" in terms(dreamt)
    with refused(DataError, "https://physionet.org/content/dreamt/", "prepare dreamt --source"):
        fetch(dreamt, tmp_path, accept_terms=True)
    with refused(DataError, "nothing to fetch", "data = 'watch'"):
        fetch(read_dataset_card("watch"), tmp_path, accept_terms=True)
    assert left(tmp_path) == []
