"""Keys that SSH's tools read, secrets, and who may read them."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedsub.deploy.keys import make_node_key, make_secret, node_key_files
from fedsub_core.errors import RunError


def test_only_the_owner_reads_keys(tmp_path: Path) -> None:
    make_node_key(tmp_path / "node")
    make_secret(tmp_path / "secret")
    private = [tmp_path / "node", tmp_path / "secret"]
    assert [path.stat().st_mode & 0o777 for path in private] == [0o600] * 2
    assert (tmp_path / "node.pub").stat().st_mode & 0o077
    assert b"PRIVATE" not in (tmp_path / "node.pub").read_bytes()


def test_a_node_key_is_p384_in_openssh_format(tmp_path: Path) -> None:
    make_node_key(tmp_path / "keys" / "node")
    raw = (tmp_path / "keys" / "node").read_bytes()
    assert raw.startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    key = load_ssh_private_key(raw, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp384r1"
    public = (tmp_path / "keys" / "node.pub").read_bytes()
    assert load_ssh_public_key(public) == key.public_key()
    if shutil.which("ssh-keygen"):
        command = ["ssh-keygen", "-y", "-f", str(tmp_path / "keys" / "node")]
        assert subprocess.check_output(command).split()[:2] == public.split()[:2]


def test_two_keys_and_two_secrets_differ(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_node_key(tmp_path / name)
        make_secret(tmp_path / f"{name}.secret")
    for ending in ("", ".pub", ".secret"):
        assert (tmp_path / f"a{ending}").read_bytes() != (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.parametrize("existing", ["node", "node.pub"])
def test_no_key_is_overwritten(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine")
    with pytest.raises(RunError, match="exists already"):
        make_node_key(tmp_path / "node")
    assert [path.name for path in tmp_path.iterdir()] == [existing]


@pytest.mark.parametrize("name", ["", "../up", "/root/x", "a b", ".hidden", "-x", "a/b", "ü"])
def test_what_is_no_name_of_a_device_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="got the name"):
        node_key_files(tmp_path, name)
