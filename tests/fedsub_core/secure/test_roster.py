"""A roster is its owner's, whole, and only grows."""

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fedsub_core.secure.roster import Roster, is_signed, private_of, public_of, signature_of

from .people import OWNER, signing_key

KEYS = {name: public_of(signing_key(i)) for i, name in enumerate(("anna", "ben", "carl"), 1)}
ROSTER, FILE = Roster(KEYS), Roster(KEYS).signed_by(OWNER)


def refusal(data: bytes, owner: str = public_of(OWNER)) -> str:
    with pytest.raises(ValueError, match=r"got .*expected") as caught:
        Roster.read(data, owner)
    return str(caught.value)


def signed(*lines: str) -> bytes:
    """Return a file of these lines that the owner signed."""
    text = "".join(f"{line}\n" for line in ("fedsub-roster 1", *lines)).encode()
    return text + f"signature {signature_of(OWNER, text).hex()}\n".encode()


def test_a_roster_is_read_as_it_was_signed() -> None:
    assert Roster.read(FILE, public_of(OWNER)) == ROSTER and ROSTER.number == 3
    assert Roster.read(Roster({}).signed_by(OWNER), public_of(OWNER)).number == 0
    assert signed(*(f"{name} {key} a comment" for name, key in KEYS.items())) != FILE
    with_comments = signed(*(f"{name} {key} a comment" for name, key in KEYS.items()))
    assert Roster.read(with_comments, public_of(OWNER)) == ROSTER


def test_a_file_cut_anywhere_is_refused() -> None:
    for end in range(len(FILE)):
        refusal(FILE[:end])


def test_a_file_changed_anywhere_is_refused() -> None:
    for place in range(0, len(FILE), 7):
        changed = bytearray(FILE)
        changed[place] ^= 1
        if changed[place : place + 1].isspace() or FILE[place : place + 1].isspace():
            continue
        with pytest.raises(ValueError):
            Roster.read(bytes(changed), public_of(OWNER))


def test_another_owners_roster_is_refused() -> None:
    other = public_of(signing_key(99))
    assert other[-16:] in refusal(FILE, other)
    assert "another key" in refusal(Roster(KEYS).signed_by(signing_key(99)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "first line"),
        (b"[people]\nanna = 1\n", "first line"),
        (b"\xff\xfe\x00", "first line"),
        (FILE.replace(b"fedsub-roster 1", b"fedsub-roster 2"), "first line"),
        (FILE + b"anna\n", "hexadecimal"),
        (signed(f"anna {KEYS['anna']}", f"anna {KEYS['ben']}"), "'anna' twice"),
        (signed(f"anna {KEYS['anna']}", f"ben {KEYS['anna']}"), "one key of 'anna' and of 'ben'"),
        (signed(f"../anna {KEYS['anna']}"), "the id '../anna'"),
        (signed(""), "the id ''"),
        (signed("anna"), "'anna': got no public key"),
        (signed("anna ecdsa-sha2-nistp384 AAAA"), "'anna': got no public key"),
        (signed("anna ssh-rsa ?"), "'anna': got no public key"),
    ],
    ids=range(12),
)
def test_what_is_no_roster_is_refused(data: bytes, said: str) -> None:
    assert said in refusal(data)


def test_a_key_of_another_kind_is_refused() -> None:
    for key in (ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())):
        line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        assert "'anna': got a public key of another kind" in refusal(signed(f"anna {line}"))


def test_a_roster_only_grows() -> None:
    ROSTER.demand_after(ROSTER)
    Roster({**KEYS, "dora": public_of(signing_key(4))}).demand_after(ROSTER)
    ROSTER.demand_after(Roster({"ben": KEYS["ben"]}))
    with pytest.raises(ValueError, match="a roster of 2 without ben, expected all 3"):
        Roster({c: k for c, k in KEYS.items() if c != "ben"}).demand_after(ROSTER)
    with pytest.raises(ValueError, match="without ben"):
        # As many as before, and not the same.
        more = {c: k for c, k in KEYS.items() if c != "ben"} | {"x": public_of(signing_key(4))}
        Roster(more).demand_after(ROSTER)
    changed = Roster(KEYS | {"ben": public_of(signing_key(4))})
    with pytest.raises(ValueError, match=re.escape(f"key of ben, expected ...{KEYS['ben'][-16:]}")):
        changed.demand_after(ROSTER)


def test_a_signature_is_of_one_key_and_one_text() -> None:
    key, text = signing_key(7), b"some text"
    good = signature_of(key, text)
    assert len(good) == 96 and is_signed(public_of(key), good, text)
    assert not is_signed(public_of(key), good, text + b".")
    assert not is_signed(public_of(signing_key(8)), good, text)
    for bad in (bytes(96), good[:-1], good + b"x", b"", good[48:] + good[:48], b"\xff" * 96):
        assert not is_signed(public_of(key), bad, text)


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path, key = tmp_path / "key", signing_key(7)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    for mode in (0o640, 0o604, 0o644):
        path.chmod(mode)
        with pytest.raises(ValueError, match=f"got mode {mode:o}, expected 600"):
            private_of(path)
    path.chmod(0o600)
    assert public_of(private_of(path)) == public_of(key)
    other = ed25519.Ed25519PrivateKey.generate()
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    with pytest.raises(ValueError, match="of another kind"):
        private_of(path)
    for data in (b"", b"text", KEYS["anna"].encode()):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="no private key"):
            private_of(path)
    with pytest.raises(ValueError, match="No such file"):
        private_of(tmp_path / "none")
