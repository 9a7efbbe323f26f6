"""A headless Chromium that is driven over the pipe of Chrome's DevTools protocol."""

import hashlib
import json
import os
import select
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedsub_core.errors import RunError

#: Seconds for what a page is to show.
PATIENCE = 60.0
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str:
    """Return Chromium's path; raise RunError if there is none."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        names = ", ".join(PROGRAMS)
        raise RunError(f"browser: got none on the path, expected {names}: apt-get install chromium")
    return found


def browser_command(program: str, profile: Path, certificate: Path, *options: str) -> list[str]:
    """Return the command of a headless browser that trusts a certificate as if a CA had signed it.

    Parameters
    ----------
    profile : folder of what the browser keeps.
    certificate : in PEM, of the server.
    """
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    known = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = b64encode(hashlib.sha256(known).digest()).decode()
    quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
    # Chromium has no sandbox for root.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    trusted = f"--ignore-certificate-errors-spki-list={digest}"
    own = [f"--user-data-dir={profile}", trusted, *options]
    return [program, "--headless", *sandbox, *quiet, *own]


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
        self.session: str | None = None

    def open(self, url: str) -> None:
        """Open a page in a new tab, and drive that from now on."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.target = target
        self.call("Page.enable")
        self.call("Page.navigate", url=url)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return a call's result; events are passed over."""
        self.ask(method, parameters)
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RunError(f"browser: {method}: got {answer['error']}, expected a result")
                return dict(answer["result"])

    def ask(self, method: str, parameters: Mapping[str, Any]) -> None:
        """Send a call, and wait for no result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self._to.write(json.dumps(message).encode() + b"\0")

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            if not select.select([self._from], [], [], 2 * PATIENCE)[0]:
                raise RunError(f"browser: no answer within {2 * PATIENCE:g} s, expected one")
            more = os.read(self._from.fileno(), 2**16)
            if not more:
                raise RunError("browser: it has ended, expected that it stays")
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(message))

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, which may be a promise."""
        how = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=script, **how)
        if "exceptionDetails" in answer:
            raise RunError(f"browser: {script[:200]}: got {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str, patience: float = PATIENCE) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + patience
        while not self.run(f"Boolean({script})"):
            if time.monotonic() > end:
                raise RunError(f"browser: {script}: not so, but {self.text()}")
            time.sleep(0.1)

    def text(self) -> str:
        """Return the text that the page shows."""
        return str(self.run("document.body.innerText"))

    def close(self) -> None:
        """End the browser, at the latest after 20 s."""
        self._to.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        finally:
            self._from.close()
