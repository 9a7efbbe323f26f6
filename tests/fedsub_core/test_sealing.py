"""Blocks sealed by a passphrase: opened by it alone, unchanged alone, under their name alone."""

from pathlib import Path

import pytest

from fedsub_core import sealing
from fedsub_core.sealing import FILE, MAGIC, Locked, NotOpened, is_sealed, seal, unseal


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a passphrase's file."""
    path = tmp_path / "passphrase"
    path.write_text("a passphrase of some length\n")
    monkeypatch.setenv(FILE, str(path))
    return path


def test_what_is_sealed_is_read_with_the_passphrase_alone(
    secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = seal(b"of anna" * 100, "anna")
    assert is_sealed(block) and b"of anna" not in block
    assert unseal(block, "anna") == b"of anna" * 100
    assert seal(b"of anna" * 100, "anna") != block, "a nonce is used once"
    assert unseal(b"plain", "anna") == b"plain"
    secret.write_text("another passphrase of some length")
    with pytest.raises(Locked, match="not the one"):
        unseal(block, "anna")
    secret.unlink()
    with pytest.raises(Locked, match="cannot be read"):
        unseal(block, "anna")
    secret.write_text("short")
    with pytest.raises(Locked, match="got 5 characters"):
        seal(b"", "anna")
    monkeypatch.delenv(FILE)
    with pytest.raises(Locked, match=FILE):
        unseal(block, "anna")
    assert seal(b"plain", "anna") == b"plain"


@pytest.mark.usefixtures("secret")
def test_every_changed_byte_another_name_and_a_cut_end_are_found() -> None:
    block = seal(b"of anna", "anna")
    with pytest.raises(NotOpened, match="changed since"):
        unseal(block, "ben")
    for length in range(len(MAGIC), len(block)):
        with pytest.raises(NotOpened):
            unseal(block[:length], "anna")
    # A changed salt costs a key each: only one of its bytes here.
    for place in (len(MAGIC), *range(len(MAGIC) + 16, len(block))):
        changed = bytearray(block)
        changed[place] ^= 1
        with pytest.raises(NotOpened):
            unseal(bytes(changed), "anna")


@pytest.mark.usefixtures("secret")
def test_a_key_is_derived_once_for_all_that_a_process_seals() -> None:
    before = sealing._key.cache_info().misses
    for name in ("anna", "ben", "cleo"):
        unseal(seal(b"x", name), name)
    assert sealing._key.cache_info().misses <= before + 1
