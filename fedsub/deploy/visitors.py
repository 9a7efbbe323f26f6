"""Answers to who comes to the devices' port without a registered key: the page, and joining.

Everything else there is signed (`fleet_door.py`). What strangers can have done is bounded: a file
is in memory, a join is short, and whose joins are refused has to wait.
"""

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fedsub.deploy.codes import CA_PATH, JOIN_PATH, JoinRequest
from fedsub.deploy.joining import Joined, JoinRefused, Joins
from fedsub.deploy.page import HEADERS, Asset, asset, read_page
from fedsub_core.errors import RunError, cut
from fedsub_core.flower.nodes import LinkNodes
from fedsub_core.flower.superlink import fleet_authority, fleet_keys

#: Bytes of a join, seconds in which it has to come, and joins that may wait for each other.
JOIN_BYTES, JOIN_SECONDS, MOST_WAITING = 4096, 10.0, 64
#: Joins of an address that may be refused at once; one more every so many seconds.
MOST_REFUSED, REFUSED_SECONDS, MOST_ADDRESSES = 10, 30.0, 10_000
#: Characters of each text of a join at most.
LENGTHS = {"client": 64, "key": 400, "token": 64, "seal": 64, "signature": 192}
log = logging.getLogger("fedsub.visitors")


@dataclass(frozen=True)
class Answer:
    """What is answered to a request."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedJoins:
    """Joins that each address may still try to no avail, such as those with wrong codes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: By address, the one first that tried least recently: when, and how many were left then.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def left(self, address: str) -> float:
        """Return the number of tries that an address has left; below 1 it has to wait."""
        now = self._clock()
        since, left = self._left.get(address, (now, float(MOST_REFUSED)))
        return min(left + (now - since) / REFUSED_SECONDS, MOST_REFUSED)

    def count(self, address: str) -> float:
        """Count one, and return how many are left."""
        left = self.left(address) - 1
        self._left[address] = self._clock(), left
        self._left.move_to_end(address)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)
        return left


class Visitors:
    """Answers to devices' browsers, and to devices that join.

    Parameters
    ----------
    page : files by path.
    joins : who joins; None: nobody can.
    ca : the authority that signed the server's certificate, PEM; "" for none to give away.
    """

    def __init__(self, page: Mapping[str, Asset], joins: Joins | None, ca: str) -> None:
        self._page, self._joins, self._ca = page, joins, ca
        self.refused_joins = RefusedJoins()
        # Joins come one after the other: two with one code never meet.
        self._pool, self._waiting = ThreadPoolExecutor(1, "join"), 0

    async def answer(
        self,
        method: str,
        path: str,
        headers: Mapping[bytes, bytes],
        address: str,
        read: Callable[[int, float], Awaitable[bytes | None]],
    ) -> Answer:
        """Return the answer to a request.

        Parameters
        ----------
        read : reads at most so many bytes of its body, in so many seconds; None: more came.
        """
        found = self._page.get(path)
        joins = self._joins if path == JOIN_PATH else None
        if found is None and joins is None:
            return refusal(HTTPStatus.NOT_FOUND, "Not Found")
        allowed = "GET, HEAD" if joins is None else "POST"
        if method not in allowed.split(", "):
            said = refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"got {cut(method)}, expected {allowed}")
            return Answer(said.status, said.body, {**said.headers, "allow": allowed})
        if joins is not None:
            return await self._join(joins, headers, address, read)
        assert found is not None
        if headers.get(b"if-none-match", b"").decode("latin-1") == found.tag:
            return Answer(HTTPStatus.NOT_MODIFIED, b"", {**HEADERS, **found.headers})
        return Answer(HTTPStatus.OK, found.body, {**HEADERS, **found.headers})

    async def _join(
        self,
        joins: Joins,
        headers: Mapping[bytes, bytes],
        address: str,
        read: Callable[[int, float], Awaitable[bytes | None]],
    ) -> Answer:
        left = self.refused_joins.left(address)
        if left < 1:
            wait = str(int((1 - left) * REFUSED_SECONDS) + 1)
            said = refusal(
                HTTPStatus.TOO_MANY_REQUESTS, f"too many joins were refused: wait {wait} s"
            )
            return Answer(said.status, said.body, {**said.headers, "retry-after": wait})
        if headers.get(b"content-type") != b"application/json":
            return refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        try:
            body = await read(JOIN_BYTES, JOIN_SECONDS)
            if body is None:
                many = f"got over {JOIN_BYTES} bytes, expected fewer"
                return refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, many)
            request = request_of(body)
            if self._waiting >= MOST_WAITING:
                return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "others join: try again")
            joined = await self._in_turn(joins, request)
        except JoinRefused as refused:
            self._note(refused, address)
            return refusal(refused.status, str(refused))
        except TimeoutError:
            return refusal(HTTPStatus.REQUEST_TIMEOUT, f"got no whole join in {JOIN_SECONDS:.0f} s")
        except Exception:
            # What broke is the server's: the device may come again with the same request.
            log.exception("a join from %s was not finished", address)
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the join was not finished: try again")
        log.warning("client %s has joined, with the invitation %s", joined.client, joined.number)
        return Answer(HTTPStatus.OK, self._welcome(joined), {"content-type": "application/json"})

    async def _in_turn(self, joins: Joins, request: JoinRequest) -> Joined:
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, joins.join, request)
        finally:
            self._waiting -= 1

    def _note(self, refused: JoinRefused, address: str) -> None:
        log.warning("a join from %s was refused: %s", address, cut(refused))
        if self.refused_joins.count(address) < 1:
            log.warning("%s has to wait: %d of its joins were refused", address, MOST_REFUSED)

    def _welcome(self, joined: Joined) -> bytes:
        told = {
            "client": joined.client,
            "node": joined.node,
            "federation": joined.federation,
            "superlink": joined.superlink,
            "key": joined.key,
            "ca": self._ca,
        }
        return json.dumps(told).encode()


def request_of(body: bytes) -> JoinRequest:
    """Return the join in a request's body.

    Raises JoinRefused if it is none.
    """
    try:
        told = json.loads(body)
        if not isinstance(told, dict) or told.keys() != LENGTHS.keys():
            raise ValueError(f"expected {', '.join(LENGTHS)}")
        for name, most in LENGTHS.items():
            if not isinstance(told[name], str) or len(told[name]) > most:
                raise ValueError(f"{name}: expected text of at most {most} characters")
            told[name].encode("ascii")
        return JoinRequest(**told | {"signature": bytes.fromhex(told["signature"])})
    except (ValueError, RecursionError) as error:
        raise JoinRefused(400, f"no join ({cut(error)})", "an object of texts in JSON") from None


def refusal(status: int, said: str) -> Answer:
    """Return the answer that refuses a request."""
    headers = {"content-type": "application/json", "connection": "close"}
    return Answer(int(status), json.dumps({"detail": said}).encode(), headers)


def visitors_of(app: Any, page: Path | None, invitations: Path | None) -> Visitors:
    """Return the answers of a SuperLink's application to who is no SuperNode.

    Raises RunError if a folder cannot be used, or there are invitations while any key may come.
    """
    ca, found = fleet_authority(app), dict[str, Asset]()
    if page is not None:
        found |= read_page(page)
    if ca:
        found[CA_PATH] = asset("ca.crt", ca, "application/x-x509-ca-cert")
    joins = None
    if invitations is not None:
        if fleet_keys(app) is None:
            raise RunError("--invitations: got no --enable-supernode-auth, expected it, too")
        joins = Joins(invitations, LinkNodes(app.state.linkstate_factory.state))
    return Visitors(found, joins, ca.decode())
