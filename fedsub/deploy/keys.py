"""Keys by which devices prove themselves, secrets of SuperExecs, and files that stay private."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fedsub_core.errors import RunError
from fedsub_core.files import write_new
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id


def node_key_files(folder: Path, name: str) -> tuple[Path, Path]:
    """Return where a device's private key lies and where its public half.

    Raises RunError if `name` is no name of a device.
    """
    if not is_client_id(name):
        raise RunError(f"key: got the name {name!r}, expected {CLIENT_ID_RULE}")
    return folder / "nodes" / name, folder / "nodes" / f"{name}.pub"


def make_node_key(path: Path) -> None:
    """Write a device's private key to `path` and the public half, to register, to ``<path>.pub``.

    Both are in OpenSSH's format, the only one that Flower's SuperNode takes, on curve P-384.

    Raises RunError if a file exists already or cannot be written.
    """
    public = path.with_name(f"{path.name}.pub")
    refuse_existing([path, public])
    key = ec.generate_private_key(ec.SECP384R1())
    write_new(path, private_bytes(key, PrivateFormat.OpenSSH), 0o600)
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_new(public, line + b"\n", 0o644)


def make_secret(path: Path) -> None:
    """Write the secret that a SuperLink or SuperNode shares with the SuperExec beside it.

    Raises RunError if the file exists already or cannot be written.
    """
    refuse_existing([path])
    write_new(path, secrets.token_hex(32).encode(), 0o600)


def private_bytes(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    """Return a private key as text, not encrypted: services start without anybody at hand."""
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def refuse_existing(paths: Sequence[Path]) -> None:
    """Raise RunError if one of `paths` is there."""
    for path in paths:
        if os.path.lexists(path):
            raise RunError(
                f"{path}: exists already and is not overwritten, devices may trust it; choose "
                "another folder or move it away"
            )
