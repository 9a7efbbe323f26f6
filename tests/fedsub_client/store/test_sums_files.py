"""What a participant in secure sums keeps: each run's in a file of its own, and what was before."""

from __future__ import annotations

import json

import pytest

from fedsub_client.protections.sums_files import OPENED_FILE
from fedsub_client.store import SUMS_FILE, FolderStore
from fedsub_core.files import make_folder


@pytest.mark.parametrize("method", ["", "local"])
def test_runs_keep_theirs_side_by_side(store: FolderStore, method: str) -> None:
    own = FolderStore(store.folder.parent, "p", method)
    make_folder(own.folder)
    for kept in (b'{"n": 1}', b'{"n": 2}'):
        for run in ("a", "b"):
            own.save_sums(kept + run.encode(), run)
    assert own.load_sums("a") == b'{"n": 2}a' and own.load_sums("b") == b'{"n": 2}b'
    assert own.load_sums("c") is None
    other = FolderStore(store.folder.parent, "p", "" if method else "local")
    assert other.load_sums("a") is None


def test_what_an_earlier_release_kept_is_read_by_the_runs_that_it_names(store: FolderStore) -> None:
    make_folder(store.folder)
    before = json.dumps({"run": "a", "told": {"b": {}}}).encode()
    (store.folder / SUMS_FILE).write_bytes(before)
    for run in ("a", "b"):
        assert store.load_sums(run) == before
        store.save_sums(b"{}", run)
        assert store.load_sums(run) == b"{}"
    assert store.load_sums("c") is None
    assert (store.folder / SUMS_FILE).read_bytes() == before


def test_a_damaged_one_may_have_named_who_asks_first(store: FolderStore) -> None:
    make_folder(store.folder)
    (store.folder / SUMS_FILE).write_bytes(b"{")
    assert store.load_sums("a") == b"{"
    store.save_sums(b'{"lost": "a"}', "a")
    assert store.load_sums("a") == b'{"lost": "a"}' and store.load_sums("b") is None


def test_sums_that_earlier_releases_opened_are_read_until_there_is_a_file(
    store: FolderStore,
) -> None:
    make_folder(store.folder)
    for name, run in ((SUMS_FILE, "a"), ("sums-0f.json", "b")):
        told = {run: {"statistics": ["hash", "p", "q"]}}
        (store.folder / name).write_text(json.dumps({"run": run, "told": told}))
    for name, damaged in (("sums-1f.json", b"{"), ("sums-2f.json", b"[1]")):
        (store.folder / name).write_bytes(damaged)
    opened = store.load_opened("2026-01-02")
    assert opened.of_run("a") and opened.of_run("b")
    store.save_opened(opened)
    (store.folder / SUMS_FILE).unlink()
    kept = store.load_opened("2026-01-03").sums
    assert [(one.run, one.what, list(one.sent)) for one in kept] == [
        ("b", "statistics", ["p", "q"]),
        ("a", "statistics", ["p", "q"]),
    ]


def test_a_damaged_file_of_opened_sums_is_named_and_stays(store: FolderStore) -> None:
    make_folder(store.folder)
    path = store.folder / OPENED_FILE
    path.write_bytes(b"{")
    opened = store.load_opened("2026-01-02")
    assert str(path) in opened.lost
    store.save_opened(opened)
    assert path.read_bytes() == b"{"
