"""What is asked over HTTP, and what is answered."""

import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedsub.status.facts import Status, Trouble, Verdict
from fedsub.status.openmetrics import CONTENT_TYPE, metrics_text
from fedsub.status.page import POLICY, failed, page, parts
from fedsub.status.reading import RUN_IN_DEPLOYMENT
from fedsub_core.errors import FedSubError, cut
from fedsub_core.release import numbers_of

#: What this machine calls itself.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Seconds between two looks of a page that is open, and how old a look may be that is told again.
EVERY, FRESH = 2.0, 0.5
#: Pages that may be open at once.
MOST_PAGES = 32
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def anonymised(status: Status) -> Status:
    """Return a status with people called ``device 1`` and so on, in the order of their ids.

    Left out is whatever could say more: Flower's ids of nodes, this machine's name, the way to the
    folder, and reasons. A reason is a device's or an error's own words, and can hold anything. So
    can what a device calls its version, of which the numbers stay.
    """
    numbers = {person.client: f"device {i}" for i, person in enumerate(status.people, start=1)}

    # Not by \b: an id may end with a dot.
    ids = "|".join(map(re.escape, numbers))
    named = re.compile(rf"(?<!\w)({ids})(?!\w)") if numbers else None

    def called(clients: Iterable[str]) -> tuple[str, ...]:
        return tuple(numbers.get(client, "a device") for client in clients)

    def hidden(trouble: Trouble) -> Trouble:
        if trouble.kind == "turned away":
            return Trouble(trouble.kind, "a node was turned away")
        # Whatever a sentence is made of: rather none than one with a name.
        said = trouble.kind if named and named.search(trouble.said) else trouble.said
        return replace(trouble, said=said, clients=called(trouble.clients), why="")

    path = Path(status.path)
    inner = status.kind == "deployment" and path.name == RUN_IN_DEPLOYMENT
    return replace(
        status,
        path=(path.parent if inner else path).name,
        host="",
        asked=called(status.asked),
        waited_for=called(status.waited_for),
        people=[
            replace(
                person,
                client=numbers[person.client],
                node=None,
                version=None if person.version is None else numbers_of(person.version),
                # What stands before the colon is the round.
                why=None if person.why is None else person.why.partition(":")[0],
            )
            for person in status.people
        ],
        together=[replace(one, groups=[*map(called, one.groups)]) for one in status.together],
        turned_away=[("", "") for _ in status.turned_away],
        # Behind the schedule and the next round come reasons.
        service=status.service[:2],
        troubles=[hidden(trouble) for trouble in status.troubles],
    )


def application(
    look: Callable[[], Status], names: bool, hosts: Collection[str] | None = None
) -> ASGIApp:
    """Return the application that answers questions.

    Parameters
    ----------
    names : whether people are named.
    hosts : whom a question may take this server for; None is anybody.
    """
    answers = _Answers(look, names)
    routes = [
        Route("/", answers.page),
        Route("/events", answers.events),
        Route("/metrics", answers.metrics),
        Route("/health", answers.health),
        Route("/ready", answers.ready),
    ]
    return _Guarded(Starlette(routes=routes), hosts)


class _Guarded:
    """Refuses questions to another host's name, and says what a browser may do with answers.

    A page of another host, whose name its owner lets point to this machine, could read what only
    loopback is told; a browser that is led so still names that host.
    """

    def __init__(self, inner: ASGIApp, hosts: Collection[str] | None) -> None:
        self.inner, self.hosts = inner, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = Headers(scope=scope).get("host", "")
        host = named.partition("]")[0][1:] if named[:1] == "[" else named.partition(":")[0]
        answer: ASGIApp = self.inner
        if self.hosts is not None and host.lower() not in self.hosts:
            said = "told to loopback alone: ask 127.0.0.1, or start it with --serve HOST:PORT\n"
            answer = PlainTextResponse(said, HTTPStatus.MISDIRECTED_REQUEST)

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(key.lower().encode(), text.encode()) for key, text in HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await answer(scope, receive, tell)


class _Answers:
    def __init__(self, look: Callable[[], Status], names: bool) -> None:
        self.look, self.names = look, names
        self._lock = anyio.Lock()
        self._seen: Status | FedSubError | None = None
        self._at = -math.inf
        self._pages = 0

    async def page(self, request: Request) -> Response:
        """Answer with the page as it is now."""
        try:
            return HTMLResponse(page(await self._status(), self.names))
        except FedSubError as error:
            return self._unreadable(error)

    async def events(self, request: Request) -> Response:
        """Answer with the page's parts, each whenever it has changed."""
        if self._pages >= MOST_PAGES:
            return PlainTextResponse(
                f"{MOST_PAGES} pages are open already\n", HTTPStatus.SERVICE_UNAVAILABLE
            )
        return StreamingResponse(self._changes(), media_type="text/event-stream")

    async def _changes(self) -> AsyncIterator[str]:
        self._pages += 1
        told: dict[str, str] = {}
        try:
            while True:
                try:
                    now = parts(await self._status())
                except FedSubError as error:
                    now = failed(self._said(error))
                changed = {key: html for key, html in now.items() if told.get(key) != html}
                # JSON has no line's end as such, which would end the event.
                yield f"data: {json.dumps(changed)}\n\n"
                told = now
                await anyio.sleep(EVERY)
        finally:
            self._pages -= 1

    async def metrics(self, request: Request) -> Response:
        """Answer in OpenMetrics."""
        try:
            text = metrics_text(await self._status(), self.names)
        except FedSubError as error:
            return self._unreadable(error)
        return Response(text, media_type=CONTENT_TYPE)

    async def health(self, request: Request) -> Response:
        """Answer that this process lives: a service manager restarts what does not."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Answer whether the run goes on or is finished."""
        try:
            status = await self._status()
        except FedSubError as error:
            return self._unreadable(error)
        stopped = status.verdict is Verdict.STOPPED
        code = HTTPStatus.SERVICE_UNAVAILABLE if stopped else HTTPStatus.OK
        return PlainTextResponse(f"{status.state}\n", code)

    async def _status(self) -> Status:
        """Look, unless somebody has just done so: many who ask do not read the folder as often."""
        async with self._lock:
            if time.monotonic() - self._at >= FRESH:
                try:
                    found = await run_in_threadpool(self.look)
                    self._seen = found if self.names else anonymised(found)
                except FedSubError as error:
                    self._seen = error
                self._at = time.monotonic()
        if isinstance(self._seen, FedSubError):
            raise self._seen
        assert self._seen is not None
        return self._seen

    def _said(self, error: FedSubError) -> str:
        return cut(error) if self.names else "the run's folder cannot be read"

    def _unreadable(self, error: FedSubError) -> Response:
        return PlainTextResponse(f"{self._said(error)}\n", HTTPStatus.SERVICE_UNAVAILABLE)
