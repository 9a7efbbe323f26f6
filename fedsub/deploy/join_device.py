"""A device that joins: it makes its own key, and registers the public half with a code."""

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedsub.deploy.codes import CA_PATH, JOIN_PATH, JoinRequest, checked_url, seal_of, token_of
from fedsub.deploy.keys import make_node_key, make_secret
from fedsub_core.errors import RunError, cut
from fedsub_core.files import make_folder, write_whole
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.secure.roster import private_of, signature_of

#: What a device keeps: its key, the authority, who it is and where to go, its SuperExec's secret.
KEY, CA, SETTINGS, SECRET = "node.key", "ca.crt", "device.env", "superexec.secret"
SECONDS, MOST_BYTES = 30.0, 2**16


def fingerprint(path: Path) -> str:
    """Return the SHA-256 fingerprint of a certificate in a file, 64 hexadecimal digits.

    Raises RunError if it is none.
    """
    try:
        return _fingerprint(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: got {cut(error)}, expected a certificate in PEM") from error


def _fingerprint(pem: bytes) -> str:
    return x509.load_pem_x509_certificate(pem).fingerprint(SHA256()).hex()


def join(
    url: str, code: str, client: str, folder: Path, ca: Path | None, expected: str | None
) -> Mapping[str, str]:
    """Join a federation as `client`, and write what its programs need; return what was answered.

    A key that is in the folder already is used. So who was interrupted calls again.

    Parameters
    ----------
    folder : gets ``node.key``, ``device.env``, ``superexec.secret``, and ``ca.crt`` if the server
        has an authority of its own.
    ca : the certificate of the authority that signed the server's; None: those of this machine.
    expected : the fingerprint of that authority, which the server then tells; None: `ca` counts.

    Raises ConfigError if URL or code is none. Raises RunError if the server is another, does not
    answer or refuses, or a file cannot be written.
    """
    url, token = checked_url(url), token_of(code)
    if not is_client_id(client):
        raise RunError(f"join: got the name {client!r}, expected {CLIENT_ID_RULE}")
    try:
        trusted = ca.read_text() if ca is not None else None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{ca}: cannot be read ({error}), expected a certificate") from error
    if expected is not None:
        trusted = _authority(url, expected)
    make_folder(folder)
    path = folder / KEY
    if not path.exists():
        make_node_key(path)
    try:
        private = private_of(path)
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    key = public.decode()
    request = JoinRequest(client, key, token, seal_of(code, client, key))
    told = {**vars(request), "signature": signature_of(private, request.text).hex()}
    answer = _post(url, told, trusted)
    if not (folder / SECRET).exists():
        make_secret(folder / SECRET)
    if authority := trusted or answer["ca"]:
        write_whole(folder / CA, authority.encode())
    settings = f"FEDSUB_CLIENT={client}\nFEDSUB_SUPERLINK={answer['superlink']}\n"
    write_whole(folder / SETTINGS, settings.encode())
    return answer


def _authority(url: str, expected: str) -> str:
    """Return the certificate that a server gives away, once it is known to be the right one."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    status, pem = _ask(url, "GET", CA_PATH, None, unchecked)
    try:
        got = _fingerprint(pem) if status == 200 else f"HTTP {status}"
    except ValueError:
        got = "no certificate"
    if got != expected.replace(":", "").lower():
        raise RunError(f"{url}: the authority's fingerprint: got {got}, expected {expected}")
    return pem.decode()


def _post(url: str, told: Mapping[str, str], ca: str | None) -> Mapping[str, str]:
    try:
        trusted = ssl.create_default_context(cadata=ca)
    except ssl.SSLError as error:
        raise RunError(f"join: the authority's certificate: {error}, expected PEM") from error
    status, body = _ask(url, "POST", JOIN_PATH, json.dumps(told).encode(), trusted)
    try:
        answer = json.loads(body)
        if status != 200:
            raise RunError(f"{url}: HTTP {status}: {cut(answer['detail'])}")
        wrong = [name for name in ("client", "key") if answer[name] != told[name]]
        texts = [answer[name] for name in ("federation", "node", "superlink", "ca")]
        if wrong or not all(isinstance(text, str) for text in texts):
            raise ValueError("another device's")
        if len(answer["superlink"].split()) != 1:  # it becomes a line of settings
            raise ValueError(f"the address {cut(answer['superlink'])}")
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{url}: HTTP {status}: got {cut(error)}, "
            "expected a FedSub SuperLink's answer; is this the port of devices?"
        ) from error
    return {str(name): str(value) for name, value in answer.items()}


def _ask(
    url: str, method: str, path: str, body: bytes | None, trusted: ssl.SSLContext
) -> tuple[int, bytes]:
    connection = HTTPSConnection(urlsplit(url).netloc, timeout=SECONDS, context=trusted)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read(MOST_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise RunError(
            f"{url}: got a certificate that is not trusted ({error.verify_message}); expected one "
            "of an authority that this machine trusts, or give --ca or --fingerprint"
        ) from error
    except (OSError, HTTPException) as error:
        raise RunError(f"{url}: got no answer ({cut(error)}), expected a SuperLink's") from error
    finally:
        connection.close()
