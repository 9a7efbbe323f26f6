"""A headless browser that a test drives, over the pipe of Chrome's DevTools protocol."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE = 60.0


class Driven:
    """A browser with one tab.

    Parameters
    ----------
    command : the browser's, without a page to open.
    said : gets what the browser says.
    """

    def __init__(self, command: Sequence[str], said: Path) -> None:
        to, from_browser = os.pipe(), os.pipe()
        # The browser reads from its file 3 and writes to its file 4.
        shell = f'exec "$@" 3<&{to[0]} 4>&{from_browser[1]}'
        with said.open("w") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", shell, "browser", *command, "--remote-debugging-pipe"],
                stderr=log,
                pass_fds=(to[0], from_browser[1]),
            )
        os.close(to[0])
        os.close(from_browser[1])
        self._to, self._from = os.fdopen(to[1], "wb", 0), os.fdopen(from_browser[0], "rb")
        self._number, self._left = 0, b""
        self._session: str | None = None

    def open(self, url: str) -> None:
        """Open a page in a new tab, and drive that from now on."""
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._target = target
        self.call("Page.enable")
        self.call("Page.navigate", url=url)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return a call's result; events are passed over."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._from.fileno(), 2**16)
            assert more, "the browser has ended"
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(message))

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, which may be a promise."""
        how = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=script, **how)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str, patience: float = PATIENCE) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + patience
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"{script}: not so, but {self.text()}"
            time.sleep(0.1)

    def text(self) -> str:
        """What the page shows."""
        return str(self.run("document.body.innerText"))

    def choose_file(self, selector: str, path: Path) -> None:
        """Choose a file in the page's field."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def kill_tab(self) -> None:
        """End the tab's process, as a phone does that is short of memory."""
        self._to.write(
            json.dumps(
                {"id": 0, "method": "Page.crash", "params": {}, "sessionId": self._session}
            ).encode()
            + b"\0"
        )
        time.sleep(0.5)
        self._session = None
        self.call("Target.closeTarget", targetId=self._target)

    def close(self) -> None:
        """End the browser."""
        self._to.close()
        self.process.terminate()
        self.process.wait(20)
        self._from.close()
