"""The sums that a device opened, on its disk: those of earlier releases, and damaged ones."""

import json
from pathlib import Path

from flwr.app import RecordDict

from fedsub_client.protections.opened_store import OPENED_FILE, OpenedStore
from fedsub_client.store import SUMS_FILE
from fedsub_core.secure.opened_sums import OpenedSum


def test_sums_that_earlier_releases_opened_are_read_until_there_is_a_file(
    tmp_path: Path,
) -> None:
    store = OpenedStore(tmp_path, RecordDict())
    for name, run in ((SUMS_FILE, "a"), ("sums-0f.json", "b")):
        told = {run: {"statistics": ["hash", "p", "q"]}}
        (tmp_path / name).write_text(json.dumps({"run": run, "told": told}))
    for name, damaged in (("sums-1f.json", b"{"), ("sums-2f.json", b"[1]")):
        (tmp_path / name).write_bytes(damaged)
    opened = store.load("2026-01-02")
    assert opened.of_run("a") and opened.of_run("b")
    store.save(opened)
    (tmp_path / SUMS_FILE).unlink()
    kept = store.load("2026-01-03").sums
    assert [(one.run, one.what, list(one.sent)) for one in kept] == [
        ("b", "statistics", ["p", "q"]),
        ("a", "statistics", ["p", "q"]),
    ]


def test_a_damaged_file_of_opened_sums_is_named_and_stays(tmp_path: Path) -> None:
    store = OpenedStore(tmp_path, RecordDict())
    path = tmp_path / OPENED_FILE
    path.write_bytes(b"{")
    opened = store.load("2026-01-02")
    assert str(path) in opened.lost
    store.save(opened)
    assert path.read_bytes() == b"{"


def test_without_a_folder_they_last_as_long_as_the_context() -> None:
    records = RecordDict()
    opened = OpenedStore(None, records).load("2026-01-02")
    OpenedStore(None, records).save(opened)
    assert not records and not opened.sums
    opened.add(OpenedSum("statistics", "a", 2, "hash", ("p", "q")))
    OpenedStore(None, records).save(opened)
    assert OpenedStore(None, records).load("2026-01-03").sums == opened.sums
