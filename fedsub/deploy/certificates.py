"""Certificates of a deployment: who the server is.

Devices trust one certificate authority (CA), ``ca.crt``; the server proves with ``server.pem`` that
it is the one they mean.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsub.deploy.bound_authority import bound_to, is_bound
from fedsub.deploy.keys import private_bytes, refuse_existing
from fedsub_core.errors import RunError
from fedsub_core.files import write_new

#: A new server certificate touches the server alone, a new CA every device.
SERVER_DAYS, CA_DAYS = 825, 3650
# A device's clock may be behind the one that made the certificates.
_CLOCK_SKEW = timedelta(hours=1)


def make_certificates(
    folder: Path,
    names: Sequence[str],
    days: int = SERVER_DAYS,
    ca_days: int = CA_DAYS,
    bound: bool = False,
) -> None:
    """Write a new CA and a server certificate that it signed into `folder`.

    Parameters
    ----------
    folder : Path
        Gets ``ca.crt``, ``ca.key``, ``server.pem`` and ``server.key``; keys only their owner reads.
    names : sequence of str
        DNS names and IP addresses that devices reach the server by.
    days, ca_days : int
        How long the server's certificate and the CA's are valid; the first not beyond the second.
    bound : bool
        Whether the CA can sign for these names alone (RFC 5280, 4.2.1.10), as phones need it.

    Raises RunError if a name is empty or no ASCII, a file exists already or cannot be written.
    """
    alternatives = [_alternative(name) for name in names]
    if not alternatives or days < 1 or ca_days < 1:
        raise RunError(
            f"certificates: got {len(names)} names, valid for {days} and {ca_days} days, expected "
            "at least one of each; give the server's DNS name or IP address with --name"
        )
    refuse_existing([folder / n for n in ("ca.crt", "ca.key", "server.pem", "server.key")])
    ca_key, ca_name = ec.generate_private_key(ec.SECP256R1()), _name("FedSub deployment CA")
    ca_draft = (
        _certificate(ca_name, ca_name, ca_key, ca_key, datetime.now(UTC) + timedelta(days=ca_days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    if bound:
        ca_draft = ca_draft.add_extension(bound_to(alternatives), critical=True)
    ca = ca_draft.sign(ca_key, hashes.SHA256())
    key, server = _server(ca, ca_key, alternatives, days)
    write_new(folder / "ca.key", private_bytes(ca_key, PrivateFormat.PKCS8), 0o600)
    write_new(folder / "ca.crt", ca.public_bytes(Encoding.PEM), 0o644)
    write_new(folder / "server.key", private_bytes(key, PrivateFormat.PKCS8), 0o600)
    write_new(folder / "server.pem", server.public_bytes(Encoding.PEM), 0o644)


def renew_server(
    folder: Path, names: Sequence[str] = (), days: int = SERVER_DAYS
) -> x509.Certificate:
    """Replace the server's key and certificate by new ones that the folder's CA signed; return it.

    The pair before stays as ``server.key.old`` and ``server.pem.old``. Each file is replaced as a
    whole; what an interruption between the two leaves, another call puts right.

    Parameters
    ----------
    names : as for :func:`make_certificates`; none keeps those of the certificate before.

    Raises RunError if the CA or its key is missing, damaged or expired, they do not belong
    together, or a file cannot be written. Then the pair before is still in place.
    """
    ca, ca_key = _read(folder / "ca.crt", folder / "ca.key")
    if ca is None or ca_key is None or ca.public_key() != ca_key.public_key():
        raise RunError(
            f"{folder}: got no CA that can sign, expected ca.crt and the ca.key that belongs to "
            "it; work in the folder where the certificates were made"
        )
    if ca.not_valid_after_utc <= datetime.now(UTC):
        raise RunError(
            f"{folder / 'ca.crt'}: expired on {ca.not_valid_after_utc:%Y-%m-%d}; make new "
            "certificates in another folder and give its ca.crt to every device"
        )
    pem, key_file = folder / "server.pem", folder / "server.key"
    before, key_before = _read(pem, key_file)
    alternatives = _renewed_names(folder, ca, before, names)
    if not alternatives or days < 1:
        raise RunError(f"{pem}: no names to keep from it; give --name as for a new certificate")
    key, server = _server(ca, ca_key, alternatives, days)
    new = {
        key_file: (private_bytes(key, PrivateFormat.PKCS8), 0o600),
        pem: (server.public_bytes(Encoding.PEM), 0o644),
    }
    # A pair that does not fit is half of an earlier try: then the good one is in .old already.
    whole = before and key_before and before.public_key() == key_before.public_key()
    try:
        for path, (content, mode) in new.items():
            _beside(path, "new").unlink(missing_ok=True)
            write_new(_beside(path, "new"), content, mode)
        for path, (_, mode) in new.items() if whole else ():
            _beside(path, "old").unlink(missing_ok=True)
            write_new(_beside(path, "old"), path.read_bytes(), mode)
        for path in new:
            os.replace(_beside(path, "new"), path)
    except OSError as error:
        raise RunError(f"{folder}: the server's certificate is not renewed ({error})") from error
    finally:
        for path in new:
            with suppress(OSError):
                _beside(path, "new").unlink()
    return server


def _renewed_names(
    folder: Path, ca: x509.Certificate, before: x509.Certificate | None, names: Sequence[str]
) -> list[x509.GeneralName]:
    """Return the names of a new certificate: these, or those of the one before."""
    if names and is_bound(ca):
        raise RunError(
            f"{folder / 'ca.crt'}: got other names, expected none: this authority can sign for its "
            "own names alone. Make new certificates in another folder"
        )
    if names or before is None:
        return [_alternative(name) for name in names]
    return list(before.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def _server(
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    alternatives: Sequence[x509.GeneralName],
    days: int,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(datetime.now(UTC) + timedelta(days=days), ca.not_valid_after_utc)
    certificate = (
        _certificate(_name("FedSub server"), ca.subject, key, ca_key, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return key, certificate


def _read(
    certificate: Path, key: Path
) -> tuple[x509.Certificate | None, ec.EllipticCurvePrivateKey | None]:
    """Return a certificate and a private key, each None where it cannot be read."""
    found, private = None, None
    with suppress(OSError, ValueError):
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    with suppress(OSError, ValueError, TypeError):
        loaded = load_pem_private_key(key.read_bytes(), password=None)
        private = loaded if isinstance(loaded, ec.EllipticCurvePrivateKey) else None
    return found, private


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    labels = name.removeprefix("*.").split(".")
    if not all(x and x.isascii() and x.replace("-", "").isalnum() for x in labels):
        raise RunError(
            f"certificates: got the name {name!r}, expected a DNS name such as fl.example.org or "
            "an IP address, without port or https://"
        )
    return x509.DNSName(name)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    until: datetime,
) -> x509.CertificateBuilder:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority, critical=False)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
