"""A device's roster: its files, and what it saw before."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.deploy.keys import make_node_key
from fedsub.deploy.roster import OWNER_FILE, ROSTER_FILE, add_to_roster
from fedsub.testing.refusals import refused
from fedsub_client.protections.device_roster import (
    PASSED_ON_FILE,
    SEEN_FILE,
    signer_of,
    take_roster,
)
from fedsub_core.errors import DataError
from fedsub_core.secure.roster import Roster, private_of

NAMES = ("anna", "ben", "carl")


def made(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    """Return the folder of a roster of these people, who have keys there."""
    for name in names:
        if not (folder / name).exists():
            make_node_key(folder / name)
    add_to_roster(folder, {name: folder / f"{name}.pub" for name in names})
    return folder


@pytest.fixture
def node(tmp_path: Path) -> dict[str, object]:
    """Return anna's node config."""
    keys = made(tmp_path / "keys")
    return {
        "state-dir": str(tmp_path / "state"),
        "secure-roster": str(keys / ROSTER_FILE),
        "secure-owner": str(keys / f"{OWNER_FILE}.pub"),
        "secure-key": str(keys / "anna"),
    }


def test_without_a_roster_nobody_signs(tmp_path: Path) -> None:
    assert signer_of({"state-dir": str(tmp_path), "secure-least": 3}, "anna") is None
    assert not list(tmp_path.iterdir())


def test_a_device_keeps_the_roster_that_it_saw(node: dict[str, object], tmp_path: Path) -> None:
    signer = signer_of(node, "anna")
    assert signer is not None and (signer.client, *signer.roster.people) == ("anna", *NAMES)
    seen = tmp_path / "state" / "anna" / SEEN_FILE
    assert seen.stat().st_mode & 0o777 == 0o600
    kept = seen.read_bytes()
    assert signer_of(node, "anna") == signer or kept == seen.read_bytes()
    # It grows, and the device goes by it at once.
    made(tmp_path / "keys", ("dora",))
    grown = signer_of(node, "anna")
    assert grown is not None and list(grown.roster.people) == [*NAMES, "dora"]
    assert seen.read_bytes() != kept


@pytest.mark.parametrize("lacking", ["secure-roster", "secure-owner", "secure-key", "state-dir"])
def test_all_of_a_roster_or_nothing(lacking: str, node: dict[str, object]) -> None:
    with refused(DataError, "client 'anna'", "node config", got=f"without {lacking}"):
        signer_of({key: value for key, value in node.items() if key != lacking}, "anna")


def former(folder: Path) -> None:
    """Put back the roster from before a person was added."""
    people = Roster.read(*_of(folder)).people
    fewer = {name: key for name, key in people.items() if name != "ben"}
    _write(folder, fewer)


def other_key(folder: Path) -> None:
    people = dict(Roster.read(*_of(folder)).people)
    make_node_key(folder / "new")
    _write(folder, people | {"ben": (folder / "new.pub").read_text().strip()})


def other_owner(folder: Path) -> None:
    for file in (OWNER_FILE, f"{OWNER_FILE}.pub", ROSTER_FILE):
        (folder / file).unlink()
    made(folder)


def other_owners_roster(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    for name in NAMES:
        shutil.copy(folder / name, other / name)
        shutil.copy(folder / f"{name}.pub", other / f"{name}.pub")
    made(other)
    shutil.copy(other / ROSTER_FILE, folder / ROSTER_FILE)


def cut_off(folder: Path) -> None:
    path = folder / ROSTER_FILE
    path.write_bytes(path.read_bytes()[:-60])


def another_format(folder: Path) -> None:
    (folder / ROSTER_FILE).write_text("[people]\n")


def readable_key(folder: Path) -> None:
    (folder / "anna").chmod(0o644)


def key_of_somebody_else(folder: Path) -> None:
    shutil.copy(folder / "ben", folder / "anna")


def no_file(folder: Path) -> None:
    (folder / ROSTER_FILE).unlink()


def private_for_owner(folder: Path) -> None:
    shutil.copy(folder / OWNER_FILE, folder / f"{OWNER_FILE}.pub")


def _of(folder: Path) -> tuple[bytes, str]:
    owner = (folder / f"{OWNER_FILE}.pub").read_text().strip()
    return (folder / ROSTER_FILE).read_bytes(), owner


def _write(folder: Path, people: dict[str, str]) -> None:
    data = Roster(people).signed_by(private_of(folder / OWNER_FILE))
    (folder / ROSTER_FILE).write_bytes(data)


BAD: dict[Callable[[Path], None], tuple[str, str]] = {
    former: ("a roster of 2 without ben", "all 3 of the one seen before"),
    other_key: ("another key of ben", "of 'ben'"),
    other_owner: ("the owner's key", "as in"),
    other_owners_roster: ("a signature of another key", "that of"),
    cut_off: ("a file without a whole signature", "last line"),
    another_format: ("[people]", "fedsub-roster 1"),
    readable_key: ("mode 644", "600"),
    key_of_somebody_else: ("of 'anna'", "anna"),
    no_file: ("No such file", "a file"),
    private_for_owner: ("no public key", "P-384"),
}


@pytest.mark.parametrize("change", BAD, ids=lambda change: change.__name__)
def test_a_roster_that_cannot_be_is_refused_by_name(
    change: Callable[[Path], None], node: dict[str, object], tmp_path: Path
) -> None:
    signer_of(node, "anna")
    seen = tmp_path / "state" / "anna" / SEEN_FILE
    before = seen.read_bytes()
    change(tmp_path / "keys")
    got, expected = BAD[change]
    for _ in range(2):
        with refused(DataError, "client 'anna'", got=got, expected=expected):
            signer_of(node, "anna")
    assert seen.read_bytes() == before


def test_who_is_not_in_the_roster_is_told_so(node: dict[str, object], tmp_path: Path) -> None:
    make_node_key(tmp_path / "keys" / "x")
    own = node | {"secure-key": str(tmp_path / "keys" / "x")}
    with refused(DataError, "client 'x'", got="no key of 'x'"):
        signer_of(own, "x")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("damaged", [b"", b"text", b"ecdsa-sha2-nistp384 AAAA\n"])
def test_what_was_seen_is_not_forgotten_where_it_is_damaged(
    damaged: bytes, node: dict[str, object], tmp_path: Path
) -> None:
    signer_of(node, "anna")
    seen = tmp_path / "state" / "anna" / SEEN_FILE
    seen.write_bytes(damaged)
    with refused(DataError, "client 'anna'", str(seen), got="no public key"):
        signer_of(node, "anna")
    seen.write_bytes(b"")
    (tmp_path / "keys" / ROSTER_FILE).touch()
    with refused(DataError, str(seen)):
        signer_of(node, "anna")


def longer(folder: Path) -> None:
    made(folder, ("dora",))


def passed_on(tmp_path: Path, change: Callable[[Path], None]) -> bytes:
    """Return a roster that a server passes on: the device's own, changed elsewhere."""
    shutil.copytree(tmp_path / "keys", tmp_path / "server")
    change(tmp_path / "server")
    return (tmp_path / "server" / ROSTER_FILE).read_bytes()


def test_a_longer_roster_from_the_server_is_gone_by(
    node: dict[str, object], tmp_path: Path
) -> None:
    own = (tmp_path / "keys" / ROSTER_FILE).read_bytes()
    take_roster(node, "anna", passed_on(tmp_path, longer))
    for _ in range(2):
        signer = signer_of(node, "anna")
        assert signer is not None and list(signer.roster.people) == [*NAMES, "dora"]
        # A server that is behind changes nothing.
        take_roster(node, "anna", own)
    # The device's own grows longer.
    shutil.copytree(tmp_path / "server", tmp_path / "keys", dirs_exist_ok=True)
    made(tmp_path / "keys", ("emil",))
    signer = signer_of(node, "anna")
    assert signer is not None and list(signer.roster.people) == [*NAMES, "dora", "emil"]


def replaced(folder: Path) -> None:
    """Add a person without another."""
    former(folder)
    made(folder, ("dora",))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (replaced, "without ben"),
        (other_key, "another key of ben"),
        (other_owner, "a signature of another key"),
        (lambda folder: (folder / ROSTER_FILE).write_bytes(b"x"), "expected 'fedsub-roster 1'"),
    ],
    ids=["a person less", "another key", "another owner", "none"],
)
def test_another_roster_from_the_server_is_refused_by_name(
    change: Callable[[Path], None], got: str, node: dict[str, object], tmp_path: Path
) -> None:
    with refused(DataError, "client 'anna'", "secure-roster", "from the server", got):
        take_roster(node, "anna", passed_on(tmp_path, change))
    assert not (tmp_path / "state" / "anna" / PASSED_ON_FILE).exists()
    signer = signer_of(node, "anna")
    assert signer is not None and list(signer.roster.people) == [*NAMES]


def test_without_a_roster_none_is_taken(tmp_path: Path) -> None:
    take_roster({"state-dir": str(tmp_path)}, "anna", b"whatever")
    assert not list(tmp_path.iterdir())
