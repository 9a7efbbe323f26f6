"""A real browser at the door, over TLS: it joins with a key that cannot be read, and is bounded."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fedsub.deploy.certificates import make_certificates
from fedsub.deploy.driven_browser import PROGRAMS, browser_command
from fedsub.deploy.joining import Joins
from fedsub.deploy.page import read_page
from fedsub.deploy.visitors import Visitors

from .joiners import invite, link_nodes
from .served_door import Served
from .test_page import write

BROWSER = next(filter(None, map(shutil.which, PROGRAMS)), None)
INDEX = """<!DOCTYPE html><title>door</title><link data-elsewhere="https://127.0.0.1:{other}/">
<script>window.inlined = true</script><script type="module" src="/page-ABCD2345.js"></script>"""


def browser(folder: Path, certificate: Path, *options: str) -> list[str]:
    """Return a browser's command, with a profile of its own."""
    assert BROWSER is not None
    return browser_command(BROWSER, folder / "profile", certificate, *options)


def tls(folder: Path) -> dict[str, str]:
    """Make certificates for localhost; return what uvicorn needs of them."""
    make_certificates(folder, ["localhost"])
    files = {"ssl_certfile": "server.pem", "ssl_keyfile": "server.key"}
    return {name: str(folder / file) for name, file in files.items()}


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path")
def test_a_browser_joins_and_can_do_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = {
        "index.html": b"",
        "page-ABCD2345.js": Path(__file__).with_name("joining_page.js").read_bytes(),
        "sw.js": b"self.addEventListener('install', () => self.skipWaiting())",
        "one-ABCD2345.wasm": b"\0asm\1\0\0\0",
    }
    nodes = link_nodes()
    files = read_page(write(tmp_path / "page", page))
    joins = Joins(tmp_path / "invitations", nodes)

    def known() -> list[bytes]:
        return [node.key for node in nodes.read()]

    served = Served(monkeypatch, Visitors(files, joins, "CA"), known, tls(tmp_path / "tls"))
    index = INDEX.format(other=served.control).encode()
    files["/"] = read_page(write(tmp_path / "page", {"index.html": index}))["/"]
    (code,) = invite(tmp_path / "invitations", "")
    command = browser(tmp_path, tmp_path / "tls" / "server.pem", "--enable-logging=stderr")
    url, bodies = f"https://localhost:{served.fleet}/#{code}", served.link.bodies
    with (tmp_path / "said").open("w") as log:
        process = subprocess.Popen([*command, url], stderr=log)
        try:
            until = time.monotonic() + 60
            while "/v1/fleet/found" not in bodies:
                assert time.monotonic() < until, (tmp_path / "said").read_text()
                time.sleep(0.1)
        finally:
            process.terminate()
            process.wait(20)
            served.close()
    found = json.loads(bodies["/v1/fleet/found"])
    (node,) = nodes.read()
    answer = found.pop("answer")
    assert (answer["client"], answer["node"]) == ("phone", str(node.node))
    assert found == {
        "status": 200,
        "secure": True,
        "isolated": True,
        "worker": found["worker"],
        "wasm": True,
        "exported": "InvalidAccessError",
        "elsewhere": "TypeError",
        "evaluated": "EvalError",
        "inline": False,
        "motion": True,
        "place": False,
    }
    assert found["worker"] in ("activating", "activated")
    said = (tmp_path / "said").read_text()
    assert "Content Security Policy" in said


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path")
def test_without_the_authority_a_browser_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = read_page(write(tmp_path / "page", {"index.html": b"<p>the page"}))
    served = Served(monkeypatch, Visitors(files, None, ""), tls=tls(tmp_path / "tls"))
    tls(tmp_path / "other")
    shown = []
    try:
        for authority in ("other", "tls"):
            command = browser(tmp_path, tmp_path / authority / "server.pem", "--dump-dom")
            said = subprocess.run(
                [*command, f"https://localhost:{served.fleet}/"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            shown.append("the page" in said.stdout)
    finally:
        served.close()
    assert shown == [False, True]
