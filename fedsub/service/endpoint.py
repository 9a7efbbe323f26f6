"""The endpoint of a service: its page for who may read, and acts of who shows a token."""

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedsub.deploy.visitors import RefusedJoins
from fedsub.service.acts import READ, perform
from fedsub.service.state import ServiceFile
from fedsub.service.tokens import ActRefused
from fedsub.status.endpoint import hosts_of
from fedsub.status.reading import SERVICE_FILE
from fedsub_core.errors import FedSubError

ACTS_PATH = "/v1/acts"
#: Bytes of a request for an act at most.
MOST_BYTES = 4096


class Border:
    """Lets requests to a status page through that may read it, and performs acts.

    Parameters
    ----------
    inner : the page.
    folder : the service's.
    open : whether everybody may read, as on loopback.
    """

    def __init__(self, inner: ASGIApp, folder: Path, open: bool) -> None:
        self.inner, self.folder, self.open = inner, folder, open
        self.refusals = RefusedJoins()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or (self.open and scope["path"] != ACTS_PATH):
            await self.inner(scope, receive, send)
            return
        address = scope["client"][0] if scope["client"] else ""
        headers, request = Headers(scope=scope), Request(scope, receive)
        if self.refusals.left(address) < 1:
            await _plain("too many refused requests; wait", 429)(scope, receive, send)
            return
        if scope["path"] == ACTS_PATH:
            await (await self._act(request, headers, address))(scope, receive, send)
            return
        code = _code(headers, basic=True)
        if (refused := await self._check_reader(code, address)) is not None:
            await refused(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            # A page stays open for days: it ends with its token.
            if message.get("more_body") and await self._check_reader(code, address) is not None:
                message = {"type": "http.response.body", "body": b"", "more_body": False}
                await send(message)
                raise ConnectionResetError("its token has ended")
            await send(message)

        with suppress(ConnectionResetError):
            await self.inner(scope, receive, tell)

    async def _check_reader(self, code: str, address: str) -> Response | None:
        """Return the answer to who may not read; None to who may."""
        error: FedSubError
        if not code:  # a browser asks without a token first: it is no act, and fills no log
            error = ActRefused(401, READ, "", "no token", "one of this service's")
        else:
            try:
                await run_in_threadpool(self._perform, code, READ, {})
                return None
            except FedSubError as refused:
                self.refusals.count(address)
                error = refused
        answer = _plain(str(error), getattr(error, "status", 500))
        answer.headers["WWW-Authenticate"] = 'Basic realm="fedsub", charset="UTF-8"'
        return answer

    async def _act(self, request: Request, headers: Headers, address: str) -> Response:
        if request.method != "POST":
            return _plain("expected POST", 405)
        try:
            length = int(headers.get("content-length", "-1"))
        except ValueError:
            length = -1
        if not 0 <= length <= MOST_BYTES:
            return _plain(f"expected at most {MOST_BYTES} bytes, and their number", 413)
        try:
            asked = json.loads(await request.body())
            act, arguments = asked["act"], asked["arguments"]
            if not isinstance(act, str) or not isinstance(arguments, dict):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            self.refusals.count(address)
            return _plain('expected {"act": TEXT, "arguments": {...}}', 400)
        try:
            # A browser sends what it knows by heart to whoever asks: not for acts.
            code = _code(headers, basic=False)
            answer = await run_in_threadpool(self._perform, code, act, arguments)
        except FedSubError as error:
            self.refusals.count(address)
            status = error.status if isinstance(error, ActRefused) else 400
            return JSONResponse({"refused": str(error)}, status)
        return JSONResponse({"answer": answer})

    def _perform(self, code: str, act: str, arguments: dict[str, Any]) -> str:
        with ServiceFile(self.folder) as file:
            return perform(file, code, act, arguments)


def guard_of(folder: Path, host: str) -> Callable[[ASGIApp], ASGIApp] | None:
    """Return the guard of the page on a service; None where there is no service.

    Everybody on this machine may read at `host` if that is loopback.
    """
    if not (folder / SERVICE_FILE).is_file():
        return None
    return lambda inner: Border(inner, folder, hosts_of(host) is not None)


def _code(headers: Headers, basic: bool) -> str:
    """Return the code that a request shows; "" for none."""
    kind, _, shown = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return shown.strip()
    if basic and kind.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(shown, validate=True).decode().partition(":")[2]
    return ""


def _plain(text: str, status: int) -> Response:
    return PlainTextResponse(f"{text}\n", status)
