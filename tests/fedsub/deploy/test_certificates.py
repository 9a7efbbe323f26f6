"""Certificates that a TLS client really accepts, or refuses; renewed ones too."""

import shutil
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fedsub.deploy import certificates
from fedsub.deploy.certificates import make_certificates, renew_server
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_certificates(
        folder, ["localhost", "127.0.0.1", "*.fl.example.org", "::1"], days=30, ca_days=60
    )
    return folder


def shake_hands(certs: Path, ca: Path, name: str) -> str:
    """A TLS handshake in memory, by a client that trusts `ca` and means `name`."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certs / "server.pem", certs / "server.key")
    client = ssl.create_default_context(cafile=str(ca))
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(4):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not ends:
            return "done"
    return "not done"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "a.fl.example.org", "::1"])
def test_a_client_that_trusts_the_ca_accepts_the_server(certs: Path, name: str) -> None:
    assert shake_hands(certs, certs / "ca.crt", name) == "done"


@pytest.mark.parametrize(
    "names", [["fl.example.org"], ["10.0.0.1"], ["*.fl.example.org", "::1", "10.0.0.1"]]
)
def test_a_bound_authority_signs_for_its_names_alone(tmp_path: Path, names: list[str]) -> None:
    """Phones that have it installed trust it with no other site, whoever gets its key."""
    make_certificates(tmp_path, names, bound=True)
    for name in names:
        asked = name.replace("*", "a")
        assert shake_hands(tmp_path, tmp_path / "ca.crt", asked) == "done"
    with refused(RunError, got="other names"):
        renew_server(tmp_path, ["example.org"])
    renew_server(tmp_path)
    assert shake_hands(tmp_path, tmp_path / "ca.crt", names[0].replace("*", "b")) == "done"
    whole = tmp_path / "server.pem"
    for stolen in ("example.org", "127.0.0.1", "::2"):
        whole.unlink()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(certificates, "is_bound", lambda ca: False)
            renew_server(tmp_path, [stolen])
        with pytest.raises(ssl.SSLCertVerificationError, match=r"permitted|excluded"):
            shake_hands(tmp_path, tmp_path / "ca.crt", stolen)


@pytest.mark.parametrize("name", ["127.0.0.2", "example.org", "b.a.fl.example.org"])
def test_another_name_is_refused(certs: Path, name: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)match"):
        shake_hands(certs, certs / "ca.crt", name)


def test_another_ca_is_refused(certs: Path, tmp_path: Path) -> None:
    make_certificates(tmp_path / "other", ["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        shake_hands(certs, tmp_path / "other" / "ca.crt", "localhost")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_openssl_verifies_the_chain(certs: Path) -> None:
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver"]
    command += ["-verify_ip", "127.0.0.1", "-CAfile", "ca.crt", "server.pem"]
    done = subprocess.run(command, cwd=certs, capture_output=True, text=True)
    assert done.returncode == 0 and "server.pem: OK" in done.stdout


def test_days_and_constraints(certs: Path) -> None:
    ca, server = (
        x509.load_pem_x509_certificate((certs / name).read_bytes())
        for name in ("ca.crt", "server.pem")
    )
    for certificate in (ca, server):
        left = certificate.not_valid_after_utc - datetime.now(UTC)
        days = 60 if certificate is ca else 30
        assert timedelta(days=days - 1, hours=23) < left <= timedelta(days=days)
        assert certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=59)
    constraints = [
        c.extensions.get_extension_for_class(x509.BasicConstraints) for c in (ca, server)
    ]
    assert [c.value.ca for c in constraints] == [True, False]
    assert ca.serial_number != server.serial_number


def test_only_the_owner_reads_keys(certs: Path) -> None:
    private = [certs / "ca.key", certs / "server.key"]
    assert [path.stat().st_mode & 0o777 for path in private] == [0o600] * 2
    public = [certs / "ca.crt", certs / "server.pem"]
    assert all(path.stat().st_mode & 0o077 for path in public)
    assert b"PRIVATE" not in b"".join(path.read_bytes() for path in public)


@pytest.mark.parametrize("existing", ["ca.crt", "ca.key", "server.pem", "server.key"])
def test_nothing_is_overwritten(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine")
    with pytest.raises(RunError, match=f"{existing}: exists already"):
        make_certificates(tmp_path, ["localhost"])
    assert [path.name for path in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_text() == "mine"


@pytest.mark.parametrize("name", ["", "https://x.org", "x.org:9092", "bücher.example", "a b", "a."])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="expected a DNS name"):
        make_certificates(tmp_path, ["localhost", name])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        make_certificates(tmp_path / "file" / "certs", ["localhost"])
    with pytest.raises(RunError, match="one of each"):
        make_certificates(tmp_path, [])


@pytest.fixture
def renewable(certs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(certs, tmp_path / "certs"))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_renewed_server_is_accepted_by_devices_as_they_are(renewable: Path) -> None:
    before = files(renewable)
    until = renew_server(renewable, days=40).not_valid_after_utc
    after = files(renewable)
    assert timedelta(days=39) < until - datetime.now(UTC) <= timedelta(days=40)
    assert {n for n in before if before[n] != after[n]} == {"server.pem", "server.key"}
    assert after.keys() - before.keys() == {"server.pem.old", "server.key.old"}
    assert all(after[f"{name}.old"] == before[name] for name in ("server.pem", "server.key"))
    assert (renewable / "server.key").stat().st_mode & 0o777 == 0o600
    assert (renewable / "server.key.old").stat().st_mode & 0o777 == 0o600
    for name in ("localhost", "127.0.0.1", "a.fl.example.org", "::1"):
        assert shake_hands(renewable, renewable / "ca.crt", name) == "done"
    # Again: one generation is kept. A new name replaces all.
    renew_server(renewable, ["fl.example.net"])
    assert files(renewable)["server.key.old"] == after["server.key"]
    assert shake_hands(renewable, renewable / "ca.crt", "fl.example.net") == "done"
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)match"):
        shake_hands(renewable, renewable / "ca.crt", "localhost")


def test_no_certificate_outlives_its_ca(renewable: Path) -> None:
    ca = x509.load_pem_x509_certificate((renewable / "ca.crt").read_bytes())
    assert renew_server(renewable, days=9000).not_valid_after_utc == ca.not_valid_after_utc


def test_half_a_renewal_is_put_right_by_another(renewable: Path) -> None:
    before = files(renewable)
    renew_server(renewable)
    # As if the power had gone after the key was moved into place.
    (renewable / "server.pem").write_bytes(before["server.pem"])
    with pytest.raises(ssl.SSLError):
        shake_hands(renewable, renewable / "ca.crt", "localhost")
    (renewable / "server.pem.new").write_text("left behind")
    renew_server(renewable)
    assert shake_hands(renewable, renewable / "ca.crt", "localhost") == "done"
    after = files(renewable)
    assert all(after[f"{name}.old"] == before[name] for name in ("server.pem", "server.key"))
    assert not [name for name in after if name.endswith(".new")]


def test_without_its_ca_nothing_is_renewed(renewable: Path, tmp_path: Path) -> None:
    make_certificates(tmp_path / "other", ["localhost"])
    for spoilt in (None, b"", (tmp_path / "other" / "ca.key").read_bytes()):
        (renewable / "ca.key").unlink()
        if spoilt is not None:
            (renewable / "ca.key").write_bytes(spoilt)
        before = files(renewable)
        with pytest.raises(RunError, match="no CA that can sign"):
            renew_server(renewable)
        (renewable / "ca.key").touch()
        assert files(renewable) == before | {"ca.key": spoilt or b""}


def test_a_renewal_that_cannot_be_written_leaves_the_old_pair(renewable: Path) -> None:
    before = files(renewable)
    (renewable / "server.pem.old").mkdir()
    with pytest.raises(RunError, match="not renewed"):
        renew_server(renewable)
    (renewable / "server.pem.old").rmdir()
    after = files(renewable)
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if name.endswith(".new")]
    (renewable / "server.pem").unlink()
    with pytest.raises(RunError, match="no names to keep"):
        renew_server(renewable)
