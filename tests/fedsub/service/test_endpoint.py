"""The endpoint: who may read beyond loopback, who may act, and what is refused by name."""

import asyncio
import base64
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from fedsub.deploy.certificates import make_certificates
from fedsub.service.acts import perform
from fedsub.service.asking import ask
from fedsub.service.audit import acts_of
from fedsub.service.endpoint import MOST_BYTES, Border, guard_of
from fedsub.service.facts import service_status
from fedsub.service.serving import serve_folder
from fedsub.service.state import ServiceFile
from fedsub.service.tokens import Caller
from fedsub.status.endpoint import Endpoint
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, RunError

from .made_link import made_service

OWNER = Caller("anna", "owner")


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("the page")(scope, receive, send)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_service(tmp_path / "svc", "always").folder


def token(folder: Path, role: str) -> str:
    with ServiceFile(folder) as file:
        return perform(file, OWNER, "token", {"name": role, "role": role, "days": 1})


def answer(border: Border, method: str, path: str, code: str = "", **keys: Any) -> httpx.Response:
    headers = {**keys.pop("headers", {}), **({"authorization": f"Bearer {code}"} if code else {})}

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(border, client=("192.0.2.7", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://it") as client:
            return await client.request(method, path, headers=headers, **keys)

    return asyncio.run(ask())


def act(border: Border, code: str, name: str, **arguments: object) -> httpx.Response:
    return answer(border, "POST", "/v1/acts", code, json={"act": name, "arguments": arguments})


def test_on_loopback_everybody_reads_and_nobody_acts(folder: Path) -> None:
    border = Border(page, folder, open=True)
    assert answer(border, "GET", "/").text == "the page"
    assert act(border, "", "pause").status_code == 401
    assert act(border, token(folder, "reader"), "pause").status_code == 403
    with ServiceFile(folder) as file:
        assert not file.state.paused
    done = act(border, token(folder, "operator"), "set", each=3)
    assert done.status_code == 200 and "each=3" in done.json()["answer"]
    with ServiceFile(folder) as file:
        assert file.settings.each == 3
        assert [one.who for one in acts_of(file)[0]].count("operator") == 1


@pytest.mark.parametrize("path", ["/", "/metrics", "/events", "/health"])
def test_elsewhere_who_reads_needs_a_token(folder: Path, path: str) -> None:
    border, code = Border(page, folder, open=False), token(folder, "reader")
    without = answer(border, "GET", path)
    assert without.status_code == 401 and "Basic" in without.headers["www-authenticate"]
    with ServiceFile(folder) as file:  # strangers fill no log
        assert "read" not in [one.act for one in acts_of(file)[0]]
    assert answer(border, "GET", path, code).text == "the page"
    basic = base64.b64encode(f"anna:{code}".encode()).decode()
    assert answer(border, "GET", path, headers={"authorization": f"Basic {basic}"}).is_success


def test_what_a_browser_knows_by_heart_is_enough_for_no_act(folder: Path) -> None:
    basic = base64.b64encode(f"anna:{token(folder, 'owner')}".encode()).decode()
    body = {"act": "pause", "arguments": {}}
    headers = {"authorization": f"Basic {basic}"}
    border = Border(page, folder, open=True)
    assert answer(border, "POST", "/v1/acts", json=body, headers=headers).status_code == 401
    with ServiceFile(folder) as file:
        assert not file.state.paused


def test_a_page_ends_with_its_token(folder: Path) -> None:
    code, sent = token(folder, "reader"), []

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        async def parts() -> Any:
            yield "first"
            with ServiceFile(folder) as file:
                perform(file, OWNER, "revoke", {"name": "reader"})
            yield "second"

        async def keep(message: Any) -> None:
            sent.append(message.get("body"))
            await send(message)

        await StreamingResponse(parts())(scope, receive, keep)

    found = answer(Border(stream, folder, open=False), "GET", "/events", code)
    assert found.text == "first"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[1]", 400),
        (b'{"act": 1, "arguments": {}}', 400),
        (b'{"act": "pause", "arguments": []}', 400),
        (b"[" * 4000, 400),
        (b'"\xff"', 400),
        (b" " * (MOST_BYTES + 1), 413),
        (json.dumps({"act": "x" * 4000, "arguments": {}}).encode(), 404),
    ],
)
def test_what_is_no_act_is_refused(folder: Path, body: bytes, status: int) -> None:
    border, code = Border(page, folder, open=True), token(folder, "owner")
    found = answer(border, "POST", "/v1/acts", code, content=body)
    assert found.status_code == status
    assert answer(border, "GET", "/v1/acts", code).status_code == 405


def test_who_guesses_has_to_wait(folder: Path) -> None:
    border, code = Border(page, folder, open=True), token(folder, "owner")
    tried = [act(border, "0" * 20, "pause").status_code for _ in range(15)]
    assert tried[:10] == [401] * 10 and tried[-1] == 429
    assert act(border, code, "pause").status_code == 429
    with ServiceFile(folder) as file:
        assert len(acts_of(file)[0]) <= 12, "guesses do not fill the log"


def test_other_folders_have_no_border(folder: Path, tmp_path: Path) -> None:
    assert guard_of(tmp_path, "0.0.0.0") is None
    guard = guard_of(folder, "0.0.0.0")
    assert guard is not None and answer(guard(page), "GET", "/").status_code == 401  # type: ignore[arg-type]


def test_commands_ask_over_tls(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificates(tmp_path / "certs", ["127.0.0.1"])
    ca = tmp_path / "certs" / "ca.crt"
    tls = ca.with_name("server.pem"), ca.with_name("server.key")
    guard, url = guard_of(folder, "0.0.0.0"), ""
    with Endpoint(("127.0.0.1", 0), lambda: service_status(folder), False, guard, tls) as it:
        thread = threading.Thread(target=it.serve, daemon=True)
        thread.start()
        url = it.url
        with refused(ConfigError, url, "FEDSUB_TOKEN"):
            ask(url, ca, "pause", {})
        monkeypatch.setenv("FEDSUB_TOKEN", token(folder, "operator"))
        assert ask(url, ca, "pause", {}).startswith("paused")
        assert "none until" in ask(url, ca, "read", {})
        with refused(RunError, url, "operator", "owner"):
            ask(url, ca, "set", {"identity": "open"})
        with refused(RunError, url):  # nobody vouches for that certificate here
            ask(url, None, "resume", {})
        it.stop()
        thread.join(10)
    with ServiceFile(folder) as file:
        assert file.state.paused
    with refused(RunError, url):
        ask(url, ca, "resume", {})


def test_tokens_are_not_taken_in_clear_beyond_loopback(folder: Path) -> None:
    with refused(ConfigError, "0.0.0.0:0"):
        serve_folder(folder, "0.0.0.0:0", None, False, print)
