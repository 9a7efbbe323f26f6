"""Disks that fail or are full: the old state stays."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_client.store import STATE_FILE, FolderStore
from fedsub_core.errors import RunError


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_a_disk_that_fails_leaves_the_old_state(
    store: FolderStore,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    saved: Any,
    assert_whole: Any,
    names: Any,
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    store.save(saved(1))
    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        with refused(RunError, "client 'p'", "round 2", os.strerror(number)):
            store.save(saved(2))
    assert_whole(store.load(), 1)
    assert names() == [STATE_FILE]
    store.save(saved(2))
    assert_whole(store.load(), 2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "fedsub-test", str(disk)]
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small file system takes root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk(small_disk: Path, saved: Any, assert_whole: Any) -> None:
    store = FolderStore(small_disk, "p")
    store.save(saved(1))
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "photos").write_bytes(bytes(2**20))
    for _ in range(2):
        with refused(RunError, "round 2", "No space left"):
            store.save(saved(2))
        assert_whole(store.load(), 1)
        assert [path.name for path in store.folder.iterdir()] == [STATE_FILE]
    (small_disk / "photos").unlink()
    store.save(saved(2))
    assert_whole(store.load(), 2)


def test_a_disk_that_was_full_from_the_start(small_disk: Path, saved: Any) -> None:
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "photos").write_bytes(bytes(2**20))
    store = FolderStore(small_disk, "p")
    with pytest.raises(RunError, match=r"round 1: .*No space left"):
        store.save(saved(1))
    assert store.load() is None


def test_a_full_disk_does_not_cost_the_run_before(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, saved: Any, assert_whole: Any, names: Any
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store.save(saved(1))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunError, match="No space left"):
        store.save(saved(1, run="other"), new_run=True)
    assert names() == [STATE_FILE]
    assert_whole(store.load(), 1)
