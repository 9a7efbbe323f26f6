"""Everything secret of a deployment: who holds what, under which names, readable to whom."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

Make = Callable[..., subprocess.CompletedProcess[str]]
PAIR = {"ca.crt", "ca.key", "server.pem", "server.key", "superexec.secret"}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(path: Path) -> tuple[list[str], list[str]]:
    """Return the DNS names and addresses that a certificate is for."""
    extension = certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return extension.value.get_values_for_type(x509.DNSName), [str(a) for a in addresses]


def test_each_side_holds_its_own_and_no_more(make_certs: Make, docker: Path) -> None:
    done = make_certs("fl.example.org", "192.0.2.7")
    assert done.returncode == 0, done.stderr
    server, devices = docker / "secrets" / "server", docker / "secrets"
    nodes = {"node-1.pub", "node-2.pub", "node-3.pub"}
    assert {p.name for p in (server / "nodes").iterdir()} == nodes
    assert {p.name for p in server.iterdir()} == PAIR | {"nodes"}
    assert {p.name for p in devices.iterdir()} == {"server", "device-1", "device-2", "device-3"}
    assert names(server / "server.pem") == (
        ["superlink", "control", "localhost", "fl.example.org"],
        ["127.0.0.1", "192.0.2.7"],
    )
    certificate(server / "server.pem").verify_directly_issued_by(certificate(server / "ca.crt"))

    secrets = {(server / "superexec.secret").read_text()}
    for n in (1, 2, 3):
        device = devices / f"device-{n}"
        assert {p.name for p in device.iterdir()} == {"node.key", "server-ca.crt", "runtime"}
        runtime = device / "runtime"
        assert {p.name for p in runtime.iterdir()} == PAIR
        assert (device / "server-ca.crt").read_bytes() == (server / "ca.crt").read_bytes()
        key = load_ssh_private_key((device / "node.key").read_bytes(), None)
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        assert public + b"\n" == (server / "nodes" / f"node-{n}.pub").read_bytes()
        own = certificate(runtime / "server.pem")
        own.verify_directly_issued_by(certificate(runtime / "ca.crt"))
        assert names(runtime / "server.pem") == (["runtime"], [])
        mine = load_pem_private_key((runtime / "server.key").read_bytes(), None)
        assert mine.public_key() == own.public_key()
        secrets.add((runtime / "superexec.secret").read_text())
    assert len(secrets) == 4 and all(len(bytes.fromhex(s)) == 32 for s in secrets)


def test_only_the_containers_user_reads_them(make_certs: Make, docker: Path) -> None:
    make_certs()
    uid = 10001 if os.getuid() == 0 else os.getuid()
    gid = 10001 if os.getuid() == 0 else os.getgid()
    everything = [docker / "secrets", *(docker / "secrets").rglob("*")]
    assert len(everything) == 38
    for path in everything:
        state = path.stat()
        assert (state.st_uid, state.st_gid) == (uid, gid)
        if path.is_dir() or path.suffix in (".key", ".secret"):
            assert state.st_mode & 0o077 == 0, path
    assert (docker / ".env").read_text() == f"FEDSUB_UID={uid}\nFEDSUB_GID={gid}\n"


def test_nothing_is_overwritten_and_settings_stay(make_certs: Make, docker: Path) -> None:
    (docker / ".env").write_text("FEDSUB_UID=4321\n")
    assert make_certs().returncode == 0
    before = {p: p.read_bytes() for p in (docker / "secrets").rglob("*") if p.is_file()}
    done = make_certs("fl.example.org")
    assert done.returncode == 1 and "exists already" in done.stderr
    assert before == {p: p.read_bytes() for p in (docker / "secrets").rglob("*") if p.is_file()}
    assert (docker / ".env").read_text() == "FEDSUB_UID=4321\n"


@pytest.mark.parametrize("name", ["https://x.org", "--nodes=9", "-h"])
def test_a_bad_name_leaves_nothing(make_certs: Make, docker: Path, name: str) -> None:
    before = {p.name for p in docker.iterdir()}
    done = make_certs(name)
    assert done.returncode != 0 and f"'{name}'" in done.stderr
    assert {p.name for p in docker.iterdir()} == before


def test_without_a_program_it_says_what_to_do(
    make_certs: Make, docker: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for program in ("dirname", "id", "mktemp", "rm", "sh"):
        found = shutil.which(program)
        assert found is not None
        (plain / program).symlink_to(found)
    done = make_certs(path=str(plain))
    assert done.returncode == 1 and "run 'docker compose build' first" in done.stderr
    assert not (docker / "secrets").exists()


def test_the_images_program_is_asked_where_there_is_no_other(
    make_certs: Make, docker: Path, tmp_path: Path
) -> None:
    # An engine that runs what it is told to on this machine: the arguments are under test.
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "docker").write_text(
        '#!/bin/sh\necho "$@" >>"$0.log"\ncase $1 in image) exit ;; esac\n'
        'while [ "$1" != fedsub ]; do shift; done\nshift\n'
        f'exec {tmp_path}/programs/fedsub "$@"\n'
    )
    (engine / "docker").chmod(0o755)
    done = make_certs(path=f"{engine}{os.pathsep}{os.defpath}")
    assert done.returncode == 0, done.stderr
    asked = (engine / "docker.log").read_text().splitlines()
    assert asked[0] == "image inspect fedsub-server:0.1.0"
    assert len(asked) == 5
    for line in asked[1:]:
        assert line.startswith(f"run --rm --network none --user {os.getuid()}:{os.getgid()} ")
        assert " fedsub-server:0.1.0 fedsub deploy certificates --dir " in line
    assert (docker / "secrets" / "device-3" / "runtime" / "server.pem").is_file()
