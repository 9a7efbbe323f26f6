"""What a participant in secure sums keeps: each run's in a file of its own, and what was before."""

import json

import pytest

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
