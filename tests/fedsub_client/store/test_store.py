"""A device's folder: what was saved last, what is damaged, who may work in it."""

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import RecordDict

from fedsub.testing.refusals import refused
from fedsub_client.kept_states import HeldStore
from fedsub_client.saved_state import LAYOUT, Saved
from fedsub_client.store import STATE_FILE, ContextStore, FolderStore
from fedsub_core.errors import OtherRelease, RunError


def test_what_was_saved_last_is_loaded(
    store: FolderStore, tmp_path: Path, saved: Any, assert_whole: Any, names: Any
) -> None:
    assert store.load() is None and not store.folder.exists()
    for round in (1, 2):
        store.save(saved(round))
        assert_whole(store.load(), round)
    assert names() == [STATE_FILE]
    assert store.path == tmp_path / "states" / "p" / STATE_FILE
    assert FolderStore(tmp_path / "states", "q").load() is None
    for folder in (store.folder, store.folder.parent):  # nobody else's
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_nodes_context_keeps_it_too(saved: Any, assert_whole: Any) -> None:
    records = RecordDict()
    assert ContextStore(records).load() is None
    with ContextStore(records).lock():
        ContextStore(records).save(saved(1))
        ContextStore(records).save(saved(2))
    assert_whole(ContextStore(records).load(), 2)
    ContextStore(records).save(saved(1), new_run=True)
    assert_whole(ContextStore(records).load(), 1)


def test_what_is_held_is_the_same_state_unwritten(saved: Any) -> None:
    held, records = dict[str, Saved](), RecordDict()
    own, beside = HeldStore(held, records), HeldStore(held, records, "local")
    assert own.load() is None
    first, second = saved(1), replace(saved(2), method="local")
    own.save(first)
    beside.save(second)
    again = HeldStore(held, records)
    assert again.load() is first and not records
    assert again.find(second.run, "local") is second and again.find("other", "local") is None


def test_file_and_folder_are_synced_before_anybody_relies_on_them(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, saved: Any
) -> None:
    done = []

    def fsync(opened: int) -> None:
        done.append(("sync", os.fstat(opened).st_ino))

    def replace_(source: Path, target: Path) -> None:
        # Whole on the disk before it has its name.
        assert Saved.of_bytes(Path(source).read_bytes()).round == 1
        done.append(("replace", Path(source).stat().st_ino))
        os.rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace_)
    store.save(saved(1))
    file, folder = store.path.stat().st_ino, store.folder.stat().st_ino
    assert done == [("sync", file), ("replace", file), ("sync", folder)]


@pytest.mark.parametrize("layout", [LAYOUT - 1, LAYOUT + 1])
def test_another_releases_state_is_refused_by_name_and_stays(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, saved: Any, names: Any, layout: int
) -> None:
    with monkeypatch.context() as other:
        other.setattr("fedsub_client.saved_state.LAYOUT", layout)
        other.setattr("fedsub_client.saved_state.VERSION", "7.8")
        store.save(saved(1, run="later"))
    before = store.path.read_bytes()
    said = (
        rf"client 'p': .*written in layout {layout} by fedsub 7\.8, expected {LAYOUT} as .* left as"
    )
    with pytest.raises(OtherRelease, match=said):
        store.load()
    with pytest.raises(OtherRelease):  # nor does a new run take its place
        store.save(saved(1), new_run=True)
    assert store.path.read_bytes() == before and "damaged-1.safetensors" not in names()


@pytest.mark.parametrize("damage", [b"", b"no state", None])
def test_a_damaged_state_is_kept_aside_and_said(
    store: FolderStore,
    caplog: pytest.LogCaptureFixture,
    damage: bytes | None,
    saved: Any,
    names: Any,
) -> None:
    found = []
    for number in (1, 2):
        store.save(saved(number))
        whole = store.path.read_bytes()
        data = damage if damage is not None else whole[:99] + b"?" + whole[100:]
        store.path.write_bytes(data)
        caplog.clear()
        assert store.load() is None
        assert f"client p: {store.path}: damaged (" in caplog.text
        assert f"kept aside as damaged-{number}.safetensors" in caplog.text
        assert (store.folder / f"damaged-{number}.safetensors").read_bytes() == data
        found.append(data)
        assert store.load() is None  # and nothing more to say
    assert names() == ["damaged-1.safetensors", "damaged-2.safetensors"]


def test_another_clients_state_is_not_used(
    store: FolderStore, caplog: pytest.LogCaptureFixture, saved: Any
) -> None:
    store.save(saved(1, client="q"))
    assert store.load() is None
    assert "it is client 'q''s, expected 'p''s; kept aside" in caplog.text
    assert Saved.of_bytes((store.folder / "damaged-1.safetensors").read_bytes()).client == "q"


def test_what_cannot_be_read_moved_or_made_is_said(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Any
) -> None:
    store.path.mkdir(parents=True)
    with pytest.raises(RunError, match=rf"{STATE_FILE}: cannot be read"):
        store.load()
    store.path.rmdir()
    store.path.write_bytes(b"damaged")

    def fail(*_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RunError, match=r"cannot be moved aside \(.*Read-only"):
        store.load()
    assert store.path.read_bytes() == b"damaged"

    (tmp_path / "file").write_text("no folder")
    misplaced = FolderStore(tmp_path / "file", "p")
    with refused(RunError, "client 'p'", "round 1", "written"):
        misplaced.save(saved(1))
    with (
        refused(RunError, "client 'p'", "state-dir"),
        misplaced.lock(),
    ):
        pytest.fail("locked what is not there")


def test_an_error_under_the_lock_frees_it(
    store: FolderStore, saved: Any, assert_whole: Any
) -> None:
    with pytest.raises(ZeroDivisionError), store.lock():
        raise ZeroDivisionError
    with store.lock():
        store.save(saved(1))
    assert_whole(store.load(), 1)
