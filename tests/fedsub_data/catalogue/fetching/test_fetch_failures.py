"""Fetching where the network or the disk fails: it says so, and nothing is left."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.catalogue.catalogue import read_dataset_card
from fedsub_data.catalogue.dataset_card import OfficialFile
from fedsub_data.catalogue.fetch import fetch


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def card_of(*files: OfficialFile) -> Any:
    return replace(read_dataset_card("wisdm"), files=files)


def test_a_broken_connection_is_tried_again(server: Any, tmp_path: Path) -> None:
    said: list[str] = []
    (path,) = fetch(server.card("broken/1"), tmp_path, True, False, report=said.append)
    assert path.read_bytes() == server.body
    assert left(tmp_path) == ["data.zip"]
    assert server.asked == ["/broken/1"] * 2
    assert said[0].endswith("the connection failed; trying again (2 of 3)")


def test_a_connection_that_always_breaks_leaves_nothing(server: Any, tmp_path: Path) -> None:
    with refused(DataError, "broken/9", "3 times"):
        fetch(server.card("broken/9"), tmp_path, True, False, report=lambda line: None)
    assert len(server.asked) == 3
    assert left(tmp_path) == []


@pytest.mark.parametrize("status", ["404", "500"])
def test_a_server_that_refuses_is_asked_once(server: Any, tmp_path: Path, status: str) -> None:
    with refused(DataError, "refused", status):
        fetch(server.card(status), tmp_path, True, False)
    assert len(server.asked) == 1
    assert left(tmp_path) == []


def test_a_server_that_is_too_slow(server: Any, tmp_path: Path) -> None:
    with refused(DataError, "3 times", "timed out"):
        fetch(
            *(server.card("slow"), tmp_path, True, False), report=lambda line: None, timeout_s=0.1
        )
    assert left(tmp_path) == []


def test_a_host_that_is_not_there(server: Any, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: refuses
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        with pytest.raises(DataError, match=r"failed 3 times.*Check the network"):
            fetch(
                *(card_of(OfficialFile("x", url)), tmp_path, True, False), report=lambda line: None
            )
    with pytest.raises(DataError, match=r"failed 3 times"):
        fetch(
            *(card_of(OfficialFile("x", "http://fedsub.invalid/x")), tmp_path, True, False),
            report=lambda line: None,
        )
    assert left(tmp_path) == []


def test_a_disk_too_small_is_seen_before_anything_is_asked(server: Any, tmp_path: Path) -> None:
    card = server.card("good", size=10**18)
    with pytest.raises(DataError) as caught:
        fetch(card, tmp_path, True, False)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: data.zip does not fit (No space left on device)")
    assert "it needs 1,000,000,000,000,000,000 bytes" in message
    assert "bytes are free. Make space or choose another folder" in message
    assert server.asked == []


def test_a_file_larger_than_a_limit_leaves_nothing(server: Any, tmp_path: Path) -> None:
    code = f"""
import resource
from pathlib import Path
from dataclasses import replace
from fedsub_data.catalogue.catalogue import read_dataset_card
from fedsub_data.catalogue.dataset_card import OfficialFile
from fedsub_data.catalogue.fetch import fetch
from fedsub_core.errors import DataError
file = OfficialFile("data.zip", {server.url("good")!r}, None, {server.sha256!r})
card = replace(read_dataset_card("wisdm"), files=(file,))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    fetch(card, Path({str(tmp_path)!r}), True, False)
except DataError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "data.zip does not fit (File too large): its size is not known" in done.stdout
    assert left(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 100 kB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up_leaves_nothing(server: Any, small_disk: Path) -> None:
    with pytest.raises(DataError) as caught:
        fetch(server.card("good"), small_disk, True, False)
    message = str(caught.value)
    assert message.startswith(f"{small_disk}: data.zip does not fit (No space left on device)")
    assert "its size is not known, " in message and " bytes are free" in message
    assert left(small_disk) == []
    assert len(server.asked) == 1
