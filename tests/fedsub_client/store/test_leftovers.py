"""What a process that was killed while it saved has left stops nobody and does not stay."""

import os
from pathlib import Path
from typing import Any

import pytest

from fedsub_client.store import STATE_FILE, FolderStore
from fedsub_core.errors import RunError
from fedsub_core.files import DRAFT, replace_file, write_whole


def left_by(process: int, folder: Path) -> Path:
    """Leave what a process of that number would that was killed while it saved."""
    folder.mkdir(parents=True, exist_ok=True)
    left = folder / f"{DRAFT}{process}-{STATE_FILE}"
    left.write_bytes(b"half of a state" * 10**4)
    return left


@pytest.mark.parametrize("new_run", [False, True])
def test_a_save_sweeps_them_all(
    store: FolderStore, saved: Any, assert_whole: Any, names: Any, new_run: bool
) -> None:
    for process in (1, os.getpid(), 10**9):
        left_by(process, store.folder)
    (store.folder / "notes.txt").write_text("somebody's")
    store.save(saved(1), new_run=new_run)
    assert_whole(store.load(), 1)
    assert names() == ["notes.txt", STATE_FILE], "and nothing else is touched"


@pytest.mark.parametrize("write", [replace_file, write_whole])
def test_one_of_the_same_process_number_does_not_stop_a_save(tmp_path: Path, write: Any) -> None:
    """After a restart, as of a container, a process may well get the number of the one before."""
    path = tmp_path / STATE_FILE
    for content in (b"first", b"second"):
        left_by(os.getpid(), tmp_path)
        write(path, content)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


def test_a_save_that_fails_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / STATE_FILE
    write_whole(path, b"first")

    def fail(_: int) -> None:
        raise OSError("no")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(RunError, match=r"could not be written \(no\)"):
            write_whole(path, b"second")

    def refuse(new: Path) -> None:
        assert new.read_bytes() == b"third" and new.suffix == path.suffix
        raise ValueError("not this")

    with pytest.raises(ValueError, match="not this"):
        write_whole(path, b"third", refuse)
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]
