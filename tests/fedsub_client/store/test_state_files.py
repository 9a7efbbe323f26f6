"""States of other runs beside the newest one's: found again, whatever happens, and bounded."""

import os
from pathlib import Path
from typing import Any

import pytest

from fedsub_client import state_files
from fedsub_client.saved_state import Saved
from fedsub_client.state_files import kept_in, kept_name
from fedsub_client.store import PREVIOUS_FILE, STATE_FILE, FolderStore, kept_as
from fedsub_core.errors import RunError


def begin(store: FolderStore, saved: Saved) -> None:
    """Save the first state of a run that is not the newest one."""
    store.save(saved, new_run=True)


def test_the_run_before_is_kept_and_found(
    store: FolderStore, caplog: pytest.LogCaptureFixture, saved: Any, assert_whole: Any, names: Any
) -> None:
    begin(store, saved(1, run="first"))
    assert names() == [STATE_FILE] and caplog.text == ""
    for round in (2, 3, 4):
        before = store.path.read_bytes()
        begin(store, saved(round, run=f"run {round}"))
        assert_whole(store.load(), round)
        kept = store.folder / kept_name(Saved.of_bytes(before))
        assert kept.read_bytes() == before
        assert f"client p: another run; kept the one before as {kept.name}" in caplog.text
    assert len(names()) == 4
    for round, run in ((1, "first"), (2, "run 2"), (3, "run 3"), (4, "run 4")):
        assert_whole(store.find(run, "local"), round)
    assert store.find("run 5", "local") is None and store.find("first", "fedavg") is None


def test_it_stands_once_after_its_run_went_on(
    store: FolderStore, saved: Any, assert_whole: Any, names: Any
) -> None:
    for round in range(1, 4):
        for run in ("a", "b"):
            begin(store, saved(round, run=run))
    assert sorted(names()) == sorted([STATE_FILE, kept_name(saved(3, run="a"))])
    assert_whole(store.find("a", "local"), 3)
    # Also under the name of a method beside the main one, and as an earlier release called it.
    store.path.rename(store.folder / PREVIOUS_FILE)
    beside_it = FolderStore(store.folder.parent, "p", "local")
    begin(beside_it, saved(4, run="b"))
    assert sorted(names()) == sorted([kept_name(saved(3, run="a")), kept_as(STATE_FILE, "local")])
    assert_whole(store.find("b", "local"), 4)


@pytest.mark.parametrize("stopped", range(4))
def test_wherever_saving_is_stopped_each_run_has_a_state(
    store: FolderStore,
    monkeypatch: pytest.MonkeyPatch,
    saved: Any,
    assert_whole: Any,
    stopped: int,
) -> None:
    """Power fails before a rename or a removal: what was moved so far has its new name."""
    begin(store, saved(1, run="a"))
    begin(store, saved(1, run="b"))
    done, replace_, unlink = [0], os.replace, Path.unlink

    def count() -> None:
        done[0] += 1
        if done[0] > stopped:
            raise KeyboardInterrupt

    def replacing(*given: Any) -> None:
        count()
        replace_(*given)

    def unlinking(path: Path, missing_ok: bool = False) -> None:
        if path.exists() and not path.name.startswith("."):
            count()
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replacing)
        patched.setattr(Path, "unlink", unlinking)
        if stopped < 3:
            with pytest.raises(KeyboardInterrupt):
                begin(store, saved(2, run="a"))
        else:
            begin(store, saved(2, run="a"))
    assert_whole(store.find("a", "local"), 2 if stopped >= 2 else 1)
    assert_whole(store.find("b", "local"), 1)
    # And the next rounds leave one state of each.
    for run in ("b", "a"):
        begin(store, saved(3, run=run))
    assert len(kept_in(store.folder)) == 1


def test_the_oldest_finished_ones_are_removed_first(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, saved: Any, assert_whole: Any
) -> None:
    monkeypatch.setattr(state_files, "MOST_KEPT", 3)
    order = ["going 1", "over 1", "going 2", "over 2", "going 3", "going 4", "going 5"]

    def left() -> set[str]:
        return {run for run in order if store.find(run, "local") is not None}

    for age, run in enumerate(order):
        begin(store, saved(1, run=run, finished=run.startswith("over")))
        os.utime(store.path, ns=(age, age))
        if run == "going 3":
            assert left() == {"going 1", "going 2", "over 2", "going 3"}
    assert left() == {"going 2", "going 3", "going 4", "going 5"}
    assert_whole(store.find("going 2", "local"), 1)


def test_their_bytes_are_bounded_but_one_stays(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, saved: Any
) -> None:
    size = len(saved(1).to_bytes())
    for most, kept in ((3 * size + 99, 3), (size - 1, 1)):
        monkeypatch.setattr(state_files, "MOST_BYTES", most)
        for number in range(6):
            begin(store, saved(1, run=f"{most} {number}"))
        assert len(kept_in(store.folder)) == kept


def test_a_damaged_one_is_put_aside_and_another_runs_is_not_looked_at(
    store: FolderStore, caplog: pytest.LogCaptureFixture, saved: Any, names: Any
) -> None:
    for run in ("a", "b", "c"):
        begin(store, saved(1, run=run))
    for run in ("a", "b"):
        (store.folder / kept_name(saved(1, run=run))).write_bytes(b"damaged")
    assert store.find("a", "local") is None and "kept aside as damaged-1" in caplog.text
    assert {"damaged-1.safetensors", kept_name(saved(1, run="b"))} <= set(names())
    store.path.write_bytes(b"damaged")  # since it was loaded
    with pytest.raises(RunError, match="damaged"):
        begin(store, saved(1, run="d"))
    assert store.path.read_bytes() == b"damaged"
