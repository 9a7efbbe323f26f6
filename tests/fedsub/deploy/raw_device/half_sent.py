"""Calls that a stranger begins and never ends: no key, each with its headers and half its bytes.

Over HTTP/2 as gRPC speaks it, frame by frame, since a gRPC client would not send half a call; over
HTTP/1.1 where Flower speaks that. Bare connections say nothing at all.
"""

import socket
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from .connection import OVER_HTTP, over_http

_SETTINGS, _HEADERS, _DATA = 4, 1, 0
_END_HEADERS, _ACK = 4, 1
#: A message of 11 bytes behind gRPC's prefix of 5; 8 of these 16 come.
HALF = b"\x00\x00\x00\x00\x0b" + b"\x0a\x09\x08"


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def _text(value: bytes) -> bytes:
    """A string as HPACK has it, not compressed: lengths from 127 on take more bytes."""
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, said = len(value) - 127, bytearray([127])
    while rest >= 128:
        said.append(rest % 128 + 128)
        rest //= 128
    return bytes([*said, rest]) + value


def call_headers(host: str, method: str, signed: Mapping[str, bytes]) -> bytes:
    """Return the headers of a call, each a literal that no table remembers."""
    told = {
        ":method": b"POST",
        ":scheme": b"https",
        ":path": f"/flwr.proto.Fleet/{method}".encode(),
        ":authority": host.encode(),
        "te": b"trailers",
        "content-type": b"application/grpc",
        # gRPC writes binary values so.
        **{n: b64encode(v) if n.endswith("-bin") else v for n, v in signed.items()},
    }
    return b"".join(b"\x00" + _text(name.encode()) + _text(value) for name, value in told.items())


def connect(address: str, ca: Path) -> ssl.SSLSocket:
    """Return a connection over TLS that has said nothing yet."""
    host, _, port = address.rpartition(":")
    trusted = ssl.create_default_context(cafile=ca)
    trusted.set_alpn_protocols(["http/1.1" if OVER_HTTP else "h2"])
    plain = socket.create_connection((host, int(port)), 10)
    return trusted.wrap_socket(plain, server_hostname=host)


def half_sent(
    address: str, ca: Path, calls: int, signed: Callable[[], Mapping[str, bytes]] = dict
) -> ssl.SSLSocket:
    """Return a connection on which so many calls are half sent; HTTP/1.1 has one at a time.

    Parameters
    ----------
    signed : more headers of each call, such as a signature.
    """
    held = connect(address, ca)
    if OVER_HTTP:
        lines = ["POST /v1/fleet/pull-messages HTTP/1.1", f"host: {address}", "content-length: 16"]
        lines += [f"{name}: {value.decode()}" for name, value in over_http(signed()).items()]
        held.sendall("\r\n".join([*lines, "", ""]).encode() + HALF)
        return held
    held.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
    with suppress(OSError):  # a server may end it before all is said
        for number in range(calls):
            stream = 2 * number + 1
            headers = call_headers(address, "PullMessages", signed())
            call = _frame(_HEADERS, _END_HEADERS, stream, headers) + _frame(_DATA, 0, stream, HALF)
            held.sendall(call)
    return held


def is_closed(held: socket.socket, seconds: float) -> bool:
    """Return whether the other side ends a connection within so long; what it says is read."""
    until = time.monotonic() + seconds
    with suppress(TimeoutError):
        while (left := until - time.monotonic()) > 0:
            held.settimeout(left)
            try:
                if not held.recv(2**16):
                    return True
            except TimeoutError:
                raise
            except OSError:
                return True
    return False


def storm(address: str, ca: Path, connections: int, calls: int, seconds: float) -> None:
    """Hold half-sent calls for a time; connections that are ended are made anew, once a second."""
    until, held = time.monotonic() + seconds, list[socket.socket]()
    while time.monotonic() < until:
        held = [one for one in held if not is_closed(one, 0.01)]
        for _ in range(connections - len(held)):
            with suppress(OSError):
                held.append(half_sent(address, ca, calls))
        time.sleep(1)
    for one in held:
        one.close()


if __name__ == "__main__":
    where, authority, *numbers = sys.argv[1:]
    storm(where, Path(authority), int(numbers[0]), int(numbers[1]), float(numbers[2]))
