"""The roster in a run's folder, which devices are told."""

from pathlib import Path

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError
from fedsub_core.wire.greeting import MOST_ROSTER_BYTES
from fedsub_server.passed_on_roster import ROSTER_FILE, read_roster


def test_a_run_may_have_one(tmp_path: Path) -> None:
    assert read_roster(tmp_path) == b""
    (tmp_path / ROSTER_FILE).write_bytes(b"fedsub-roster 1\nrest")
    assert read_roster(tmp_path) == b"fedsub-roster 1\nrest"


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (b"", "another first line"),
        (b"fedsub-roster 2\n", "another first line"),
        (b"fedsub-roster 1\n" + bytes(MOST_ROSTER_BYTES), str(16 + MOST_ROSTER_BYTES)),
    ],
    ids=["empty", "of a later release", "too large"],
)
def test_what_is_none_is_refused_before_the_run(data: bytes, got: str, tmp_path: Path) -> None:
    (tmp_path / ROSTER_FILE).write_bytes(data)
    with refused(RunError, str(tmp_path / ROSTER_FILE), got=got):
        read_roster(tmp_path)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / ROSTER_FILE).mkdir()
    with refused(RunError, str(tmp_path / ROSTER_FILE), "cannot be read"):
        read_roster(tmp_path)
