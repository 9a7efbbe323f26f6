"""What is written tells of people: its owner alone can read it, whatever the umask."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsub_core.errors import RunError
from fedsub_core.files import (
    make_folder,
    replace_file,
    stamped_folder,
    sync_all,
    whole_folder,
    write_whole,
)


def test_an_error_names_the_path_that_was_given_alone(tmp_path: Path) -> None:
    path, file = tmp_path / "none" / "p2.csv", tmp_path / "file"
    with pytest.raises(RunError) as error:
        write_whole(path, b"")
    assert f"{path}: could not be written (No such file or directory); " in str(error.value)
    file.touch()
    with pytest.raises(RunError) as error, whole_folder(file / "new", RunError):
        pass
    assert f"{file / 'new'}: cannot be made (" in str(error.value)
    assert str(error.value).count("new") == 1


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> set[tuple[bool, int]]:
    """Return whether each path under `folder` is a folder, and its mode."""
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in folder.rglob("*")}


@pytest.mark.usefixtures("umask")
def test_files_and_folders_are_their_owners_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    replace_file(tmp_path / "a" / "file", b"1")
    stamped_folder(tmp_path / "runs", "name")
    with whole_folder(tmp_path / "federation", RunError) as draft:
        (draft / "clients").mkdir()
        (draft / "clients" / "p1.npz").write_bytes(b"")
    assert modes(tmp_path) == {(True, 0o700), (False, 0o600)}


def test_a_file_that_was_open_to_others_is_replaced_by_one_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    path.chmod(0o644)
    replace_file(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_bytes() == b"new"


def test_many_small_files_are_synced_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    monkeypatch.setattr(os, "fsync", lambda file: asked.append("file"))
    monkeypatch.setattr(os, "sync", lambda: asked.append("all"))
    write_whole(tmp_path / "one", b"1", sync=False)
    write_whole(tmp_path / "other", b"2", sync=False)
    assert asked == [] and (tmp_path / "other").read_bytes() == b"2"
    sync_all()
    write_whole(tmp_path / "one", b"3")
    assert asked == ["all", "file", "file"], "the file's own, and its name's"


def test_folders_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    there = tmp_path / "shared"
    there.mkdir()
    there.chmod(0o755)
    make_folder(there)
    make_folder(there / "mine")
    assert there.stat().st_mode & 0o777 == 0o755
