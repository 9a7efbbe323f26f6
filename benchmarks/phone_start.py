"""From a server's empty machine to a phone in a federation: commands and seconds.

    python benchmarks/phone_start.py [--csv benchmarks/results/phone-start.csv]

Runs, in a new folder with a copy of this tree, the commands that docs/deployment.md and
docs/phones.md say: an environment with FedSub and Flower 1.42, the page, certificates, the server,
an invitation. Then headless Chromium opens its link, joins, and gets a person's recordings as
sensors give them, until the page waits for a round. Needs Chromium, Node, and the network for pip
and npm. `--installed` leaves out what is installed, and takes this environment's, with Flower 1.42.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from script import put_rows, read_arguments

from fedsub.deploy.components import Credentials, superlink
from fedsub.deploy.driven_browser import Driven, browser_command, find_browser
from fedsub.deploy.flower_process import free_ports, is_healthy
from fedsub.engines.page_rehearsal import JOIN_SECONDS, PAGE
from fedsub.engines.replayed_person import record
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation

TINY = ["--installed"]
#: It needs Flower 1.42, Chromium and what `make web` builds.
SLOW = True
#: What the lines of results begin with.
LINES = ("a phone joins and records",)
ROOT = Path(__file__).resolve().parents[1]
#: What is no part of a checkout.
LEFT_OUT = shutil.ignore_patterns(
    ".venv", ".git", "node_modules", "build", "dist", "*.so", ".*_cache"
)


class Start:
    """The steps in a folder, each with its commands, seconds, and CPU seconds of the commands."""

    def __init__(self, folder: Path, csv: Path | None) -> None:
        self.folder, self.csv = folder, csv
        self.seconds = self.commands = 0.0
        self.env = {name: one for name, one in os.environ.items() if name != "PYTHONPATH"}

    def step(self, name: str, commands: Sequence[Sequence[object]], since: float = 0.0) -> None:
        """Run a step's commands, and note it; `since` is the beginning of one that is done."""
        began, before = since or time.monotonic(), _cpu()
        for command in () if since else commands:
            subprocess.run(
                [str(part) for part in command],
                cwd=self.folder,
                env=self.env,
                check=True,
                stdout=sys.stderr,
            )
        used = "" if since else f"{_cpu() - before:.0f}"
        self.note(name, len(commands), time.monotonic() - began, used)

    def note(self, name: str, commands: int, seconds: float, used: str) -> None:
        """Print a row, and keep it."""
        self.seconds, self.commands = self.seconds + seconds, self.commands + commands
        row = {"step": name, "commands": commands, "seconds": f"{seconds:.0f}"}
        row |= {"CPU s of the commands": used}
        print(*row.values(), flush=True)
        put_rows(self.csv, [row], ["step"])


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def installed(start: Start) -> Path:
    """Install FedSub and build the page as a server's machine does; return the programs' folder."""
    tree, bin = start.folder / "fedsub", start.folder / "venv" / "bin"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    pip = [bin / "pip", "install", "-q"]
    start.step(
        "FedSub and Flower are installed",
        [
            [sys.executable, "-m", "venv", "venv"],
            [*pip, "-c", tree / "constraints.txt", f"{tree}[run,invite,wheels]"],
            [*pip, "-r", tree / "constraints-http.txt"],
        ],
    )
    kernels = [bin / "python", tree / ".ci" / "libfedsub.py", "--out", tree / "web" / "kernels"]
    npm = ["npm", "--prefix", tree / "web"]
    start.step(
        "the page is built",
        [
            [*kernels, "--names", "fedsub.wasm"],
            [*npm, "ci", "--silent"],
            [*npm, "run", "--silent", "build"],
            ["cp", "-r", tree / "web" / "dist" / "page", "page"],
        ],
    )
    return bin


def main() -> None:
    given = read_arguments(TINY, installed=(False, "take what is installed here"), csv=Path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = Start(folder, given.csv)
        if given.installed:
            bin, start.env = Path(sys.executable).parent, dict(os.environ)
            shutil.copytree(PAGE, folder / "page")
        else:
            bin = installed(start)
        in_federation(start, bin)
        start.note("all", int(start.commands), start.seconds, "")


def in_federation(start: Start, bin: Path) -> None:
    """Set up a server, invite, and have a phone join."""
    folder, (fleet, port) = start.folder, free_ports(2)
    watch = watch_federation()
    someone = dict([next(iter(watch.clients.items()))])
    write_federation(folder / "data", Federation(watch.card, someone))
    names = ["--name", "localhost", "--name", "127.0.0.1"]
    start.step(
        "certificates, and the federation's card",
        [
            [bin / "fedsub", "deploy", "certificates", "--dir", "admin", *names, "--bound"],
            ["cp", folder / "data" / CARD_FILE, "page"],
        ],
    )
    admin = folder / "admin"
    files = (admin / n for n in ("ca.crt", "server.pem", "server.key", "superexec.secret"))
    credentials, began = Credentials(*files), time.monotonic()
    command = [
        str(bin / "fedsub-superlink"),
        *superlink(credentials, fleet, port, folder / "link.db")[1:],
    ]
    command += ["--page", str(folder / "page"), "--invitations", str(folder / "invitations")]
    with (folder / "link.log").open("w") as log:
        link = subprocess.Popen(command, cwd=folder, env=start.env, stdout=log, stderr=log)
    try:
        while not is_healthy(f"https://127.0.0.1:{port}", credentials.ca):
            assert link.poll() is None, (folder / "link.log").read_text()
            time.sleep(0.2)
        start.step("the server is up", [command], since=began)
        url = f"https://localhost:{fleet}"
        where = ["--ca", admin / "ca.crt", "--dir", "invitations", "--out", "sheet"]
        invite = [bin / "fedsub", "deploy", "invite", "--count", "1", "--url", url, *where]
        start.step("an invitation", [invite])
        (row,) = (folder / "sheet" / "codes.csv").read_text("utf-8").splitlines()[1:]
        address = next(part for part in row.split(",") if part.startswith(url))
        began = time.monotonic()
        phone(folder, credentials, address, Federation(watch.card, someone))
        start.step("a phone joins and records", [], since=began)
    finally:
        link.terminate()
        link.wait()


def phone(folder: Path, credentials: Credentials, address: str, one: Federation) -> None:
    """Open the invitation in a browser, join, record, and wait for a round."""
    program, profile = find_browser(), folder / "browser"
    command = browser_command(program, profile, credentials.certificate, "--lang=en-GB")
    tab = Driven(command, folder / "browser.log")
    try:
        tab.open(address)
        tab.until("document.querySelector('#join-press')", JOIN_SECONDS)
        tab.run("document.querySelector('#name').value = 'anna'")
        tab.run("document.querySelector('#agree').click()")
        tab.run("document.querySelector('#join-press').click()")
        tab.until("document.querySelector('#record-press')", JOIN_SECONDS)
        (data,) = one.clients.values()
        record(tab, data, one.card)
        tab.until("/Waits/.test(document.querySelector('#now-says').textContent)", JOIN_SECONDS)
    finally:
        tab.close()


if __name__ == "__main__":
    main()
