"""The page in a real browser: as wide as a phone and wide, light and dark, and it follows the run.

Browsers do not make windows as narrow as phones, so a page of the same server asks it in frames.
"""

import json
import queue
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fedsub.status import answers, endpoint, reading
from fedsub.status.reading import read_status
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase

from .made_deployments import EVIL, PEOPLE, make_deployment, said, served

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WIDTHS = (390, 1200)
ASKING = """<!DOCTYPE html><title>asking</title><body><script>
function ask(frame) {
  const d = frame.contentDocument, w = frame.contentWindow;
  const row = d.querySelector('.people tbody tr');
  return {
    width: w.innerWidth, wide: d.documentElement.scrollWidth, text: d.body.innerText,
    paper: w.getComputedStyle(d.body).backgroundColor, cards: w.getComputedStyle(row).display,
    hosts: w.performance.getEntriesByType('resource').map(one => new URL(one.name).host),
  };
}
const frames = WIDTHS.map(width => {
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:800px;border:0`;
  frame.src = '/';
  document.body.append(frame);
  return frame;
});
setInterval(() => fetch('/told', {
  method: 'POST',
  body: JSON.stringify(frames.filter(f => f.contentDocument.querySelector('.people')).map(ask)),
}), 50);
</script></body>"""


class Asking:
    """What the endpoint answers, and a page in whose frames the page stands."""

    def __init__(self, inner: ASGIApp, told: queue.Queue[Any]) -> None:
        self.inner, self.told = inner, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self.inner
        if scope["path"] == "/asking":
            answer = HTMLResponse(ASKING.replace("WIDTHS", str([*WIDTHS])))
        elif scope["path"] == "/told":
            self.told.put(json.loads(await Request(scope, receive).body()))
            answer = Response()
        await answer(scope, receive, send)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[Any]:
    """What the page that asks has found."""
    found: queue.Queue[Any] = queue.Queue()
    real = answers.application

    def asking(*arguments: Any, **others: Any) -> ASGIApp:
        return Asking(real(*arguments, **others), found)

    monkeypatch.setattr(endpoint, "application", asking)
    policy = answers.HEADERS["Content-Security-Policy"]
    framed = policy.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
    monkeypatch.setitem(answers.HEADERS, "Content-Security-Policy", framed)
    monkeypatch.setattr(answers, "EVERY", 0.1)
    monkeypatch.setattr(reading, "holder", lambda files: 1)
    return found


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path")
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_names_nobody_and_follows_the_run(
    tmp_path: Path, told: queue.Queue[Any], dark: bool
) -> None:
    assert BROWSER is not None
    each = said(10, 3)["people"]
    each["bob"] |= {"refused": [3, "tensor head: got nan " * 9]}
    live = {"people": each, "turned_away": {"987": "x" * 99}}
    run = tmp_path / ("a-run-whose-folder-has-a-long-name-" * 3)
    database = make_deployment(run, missing=(EVIL,), refused=("bob",), live=live)
    database.close()
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
               "--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}",
               f"--blink-settings=preferredColorScheme={0 if dark else 1}",
               "--enable-logging=stderr", "--window-size=1300,900"]  # fmt: skip
    with served(lambda: read_status(run)) as url, (tmp_path / "said").open("w") as log:
        process = subprocess.Popen([*command, f"{url}/asking"], stderr=log)
        try:
            wait_for(told, "3 of 10")
            with RunDatabase(run / "fedavg" / "state.db") as opened:
                rows = [MetricRow(4, one, 0, "cluster", 1.0) for one in PEOPLE]
                opened.commit(4, {}, rows)
            found = wait_for(told, "4 of 10")
        finally:
            process.terminate()
            process.wait(20)
    assert "CONSOLE" not in (tmp_path / "said").read_text(), (tmp_path / "said").read_text()
    for one in found:
        assert one["wide"] <= one["width"]
        assert one["cards"] == ("block" if one["width"] == 390 else "table-row")
        assert {*one["hosts"]} <= {url.removeprefix("http://")}
        assert (sum(map(int, re.findall(r"\d+", one["paper"])[:3])) < 384) == dark
        assert "device 1, device 2, device 3, device 4" in one["text"]
        assert "This page follows the run." in one["text"]
        assert not re.search(rf"\b({'|'.join(PEOPLE[:3])}|eve|987)\b", one["text"])


def wait_for(told: queue.Queue[Any], words: str) -> list[dict[str, Any]]:
    """Wait until both frames say these words; return what was found of each."""
    for _ in range(600):
        found: list[dict[str, Any]] = told.get(timeout=30)
        if len(found) == len(WIDTHS) and all(words in one["text"] for one in found):
            assert [one["width"] for one in found] == [*WIDTHS]
            return found
    raise AssertionError(f"no page said {words!r}: {found}")
