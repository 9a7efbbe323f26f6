"""One-time codes by which a device joins a federation, and what it sends in place of its code.

A code never leaves the device. Two values are derived from it. The token is sent, and shows the
server that the device has the code. The seal, over the device's name and public key, shows it to
whoever made the codes: the server passes it on, and cannot make one itself.
"""

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from fedsub_core.errors import ConfigError

#: Crockford's 32 symbols: none can be taken for another.
SYMBOLS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: Symbols of a code, 5 bits each, and how many stand together.
LENGTH, GROUP = 20, 4
VERSION = "fedsub-join 1"
#: Where a server's port for devices answers who joins, and gives its authority's certificate away.
JOIN_PATH, CA_PATH = "/v1/join", "/ca.crt"


def new_code() -> str:
    """Return a random code of 100 bits, such as ``7XK2-...``."""
    symbols = "".join(secrets.choice(SYMBOLS) for _ in range(LENGTH))
    return "-".join(symbols[at : at + GROUP] for at in range(0, LENGTH, GROUP))


def plain(code: str) -> str:
    """Return a code's symbols alone, as somebody may have typed them.

    Raises ConfigError if it is no code.
    """
    symbols = "".join(code.split()).replace("-", "").upper()
    symbols = symbols.translate(str.maketrans("OIL", "011"))
    if len(symbols) != LENGTH or not set(symbols) <= set(SYMBOLS):
        # The code itself may be a good one but for a letter: it is not repeated.
        raise ConfigError(
            f"code: got {len(symbols)} characters, expected {LENGTH} letters and digits as on the "
            "invitation, without U"
        )
    return symbols


def token_of(code: str) -> str:
    """Return the token of a code, 64 hexadecimal digits; raises as :func:`plain`."""
    return _derived("token", code).hex()


def token_hash(token: str) -> str:
    """Return the form in which a token is stored: who reads it cannot join with it."""
    return hashlib.sha256(token.encode()).hexdigest()


def seal_of(code: str, client: str, key: str) -> str:
    """Return the seal over a name and a public key in PEM, 64 hexadecimal digits."""
    return hmac.new(_derived("seal", code), f"{client}\n{key}".encode(), "sha256").hexdigest()


def checked_url(url: str) -> str:
    """Return the address of a server's port for devices, without a slash at its end.

    Raises ConfigError if it is none with https, a host and a port.
    """
    parts, port = urlsplit(url), None
    with suppress(ValueError):
        port = parts.port
    plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme != "https" or not parts.hostname or port is None or not plain:
        raise ConfigError(f"URL: got {url!r}, expected such as https://fl.example.org:9092")
    return f"https://{parts.netloc}"


def _derived(use: str, code: str) -> bytes:
    return hashlib.sha256(f"{VERSION} {use} {plain(code)}".encode()).digest()


@dataclass(frozen=True)
class JoinRequest:
    """What a device sends to join.

    Parameters
    ----------
    client : the name under which it takes part.
    key : its public key, PEM.
    token, seal : of its code.
    signature : the key's, of :attr:`text`: both numbers of 48 bytes, ECDSA with SHA-384.
    """

    client: str
    key: str
    token: str
    seal: str
    signature: bytes = b""

    @property
    def text(self) -> bytes:
        """What the key signs."""
        return "\n".join((VERSION, self.token, self.client, self.seal, self.key)).encode()
