"""Invitations as files: what the server knows of them, and who cannot join any more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedsub.deploy.codes import plain, token_hash, token_of
from fedsub.deploy.invitations import (
    Invitation,
    new_invitations,
    read_batches,
    withdraw,
    write_batch,
)
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, RunError

URL = "https://fl.example.org:9092"


def test_the_server_gets_hashes_alone(tmp_path: Path) -> None:
    made = new_invitations(URL, "Walks, of\na town", 14, ["", "", "anna"])
    path = write_batch(tmp_path, list(made.values()))
    assert path.stat().st_mode & 0o777 == 0o600
    said = path.read_text()
    assert not any(code in said or plain(code) in said or token_of(code) in said for code in made)
    found = read_batches(tmp_path)
    assert list(found.values()) == list(made.values())
    assert [found[token_hash(token_of(code))].client for code in made] == ["", "", "anna"]
    assert {one.superlink for one in found.values()} == {"fl.example.org:9092"}


def test_an_invitation_ends() -> None:
    (one,) = new_invitations(URL, "f", 2, [""]).values()
    now = datetime.now(UTC)
    assert not one.ended(now + timedelta(days=1.9))
    assert one.ended(now + timedelta(days=2, seconds=2))


@pytest.mark.parametrize(
    ("clients", "days"), [([], 1), (["a", "a"], 1), (["../a"], 1), ([""], 0), ([""], 9999)]
)
def test_no_invitation(clients: list[str], days: float) -> None:
    with pytest.raises(ConfigError, match="expected"):
        new_invitations(URL, "f", days, clients)


def batch(folder: Path, name: str, count: int) -> list[Invitation]:
    made = new_invitations(URL, "f", 1, [""] * count).values()
    named = [replace(one, number=f"{name}/{n}") for n, one in enumerate(made, 1)]
    write_batch(folder, named)
    return named


def test_one_is_withdrawn_or_a_batch(tmp_path: Path) -> None:
    first, second = batch(tmp_path, "1", 2), batch(tmp_path, "2", 2)
    with refused(RunError, "1/3"):
        withdraw(tmp_path, ["1/1", "1/3"])
    assert len(read_batches(tmp_path)) == 4
    assert withdraw(tmp_path, ["1/1", "2"]) == ["1/1", "2/1", "2/2"]
    assert list(read_batches(tmp_path).values()) == first[1:]
    assert second[0].token_hash not in read_batches(tmp_path)


def test_a_batch_is_not_written_over(tmp_path: Path) -> None:
    before = batch(tmp_path, "1", 1)
    with refused(RunError, "1.csv"):
        batch(tmp_path, "1", 2)
    assert list(read_batches(tmp_path).values()) == before


@pytest.mark.parametrize("text", ["", "number,until\n1,2\n", "\xff", "half"])
def test_a_damaged_batch_is_named(tmp_path: Path, text: str) -> None:
    (path,) = [write_batch(tmp_path, list(new_invitations(URL, "f", 1, [""]).values()))]
    whole = path.read_bytes()
    damaged = whole[: len(whole) // 2] if text == "half" else text.encode("latin-1")
    path.write_bytes(damaged + b"\n1,2,3\n")
    with refused(RunError, path):
        read_batches(tmp_path)
