"""Receipts of sums: kept beside the state, and read without what was not written whole."""

from pathlib import Path
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_client.protections.receipts import (
    Receipt,
    note_receipt,
    promised,
    read_receipts,
    receipts_file,
)
from fedsub_core.errors import RunError

FACTS: dict[str, Any] = dict(
    client="anna", run="run", round=1, session="01", head="a", plan="b", people="c", transcript="d",
    leaf="e", vector="f", numbers=9, once="", least=3, noise={"dp-noise": 1.0},
)  # fmt: skip


def test_a_receipt_is_read_with_what_came_later(tmp_path: Path) -> None:
    node = {"state-dir": str(tmp_path)}
    note_receipt(node, "anna", "run", FACTS)
    note_receipt(node, "anna", "run", FACTS | {"session": "02", "round": 2})
    note_receipt(node, "anna", "run", {"session": "01", "opened": True})
    path = receipts_file(tmp_path / "anna", "run")
    assert path.stat().st_mode & 0o777 == 0o600
    first, second = Receipt(**FACTS, opened=True), Receipt(**FACTS | {"session": "02", "round": 2})
    assert read_receipts(path) == ([first, second], 0)
    assert path != receipts_file(tmp_path / "anna", "another")


def test_a_device_that_died_while_it_wrote_goes_on_in_a_line_of_its_own(tmp_path: Path) -> None:
    node, path = {"state-dir": str(tmp_path)}, receipts_file(tmp_path / "anna", "run")
    note_receipt(node, "anna", "run", FACTS)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:30])
    note_receipt(node, "anna", "run", FACTS | {"session": "02"})
    found, damaged = read_receipts(path)
    assert [one.session for one in found] == ["01", "02"] and damaged == 1


@pytest.mark.parametrize("line", [b"[]", b"1", b"{}", b'{"session": "01"}', b'{"session": []}'])
def test_what_is_no_receipt_is_counted(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    path.write_bytes(line + b"\n")
    assert read_receipts(path) == ([], 1)


def test_without_a_state_dir_nothing_is_kept_and_a_full_disk_is_said(tmp_path: Path) -> None:
    note_receipt({}, "anna", "run", FACTS)
    (tmp_path / "file").write_bytes(b"")
    with refused(RunError, "'anna'"):
        note_receipt({"state-dir": str(tmp_path / "file")}, "anna", "run", FACTS)


def test_noise_is_promised_by_the_runs_options() -> None:
    config = {"dp-noise": 1, "dp-clip": 0.2, "mine.noise": 0.5, "other.noise": 3.0, "lr": 0.1}
    assert promised(config, "mine") == {"dp-noise": 1.0, "dp-clip": 0.2, "mine.noise": 0.5}
    assert promised({"dp-noise": 0.0, "dp-clip": 0.2, "mine.noise": 0.0}, "mine") == {}
