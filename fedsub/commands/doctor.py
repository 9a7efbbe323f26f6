"""``fedsub doctor``: is all there that FedSub needs, and what can be added."""

import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

import click
from packaging.requirements import Requirement
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedsub.commands.as_json import AS_JSON, print_json
from fedsub_core.cores import usable_cores
from fedsub_core.errors import FedSubError
from fedsub_core.extras import EXTRAS
from fedsub_core.methods.table import BROKEN
from fedsub_core.version import VERSION

#: Ports of a deployment (``docs/deployment.md``).
PORTS = {8000: "a server's control", 9092: "a server's devices", 9094: "a device's app"}
#: Bytes on the disk below which a run may not end.
LEAST_DISK = 1 << 30
OK, NOTE, WRONG = "ok", "note", "wrong"


@dataclass(frozen=True)
class Finding:
    """One thing looked at: how it is (``ok``, ``note`` or ``wrong``), and what to do about it."""

    what: str
    state: str
    found: str


def findings(folder: Path) -> Iterator[Finding]:
    """Yield all that was looked at; `folder` is where runs would be written."""
    python = sys.version.split()[0]
    yield Finding("Python", OK if sys.version_info >= (3, 11) else WRONG, python)
    yield Finding("FedSub", OK, VERSION)
    yield from _required()
    yield _kernels()
    yield from _extras()
    yield from (Finding(f"method {name}", WRONG, why) for name, why in BROKEN.items())
    yield Finding("cores", OK, f"{usable_cores()} usable")
    yield _disk(folder)
    yield _temporary()
    yield from (_port(port, use) for port, use in PORTS.items())
    # A server and its devices refuse each other's certificates and replies where clocks differ.
    yield Finding("clock", OK, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC; compare with a watch")


def _required() -> Iterator[Finding]:
    """Yield each package that every installation needs, and whether its version fits."""
    for text in requires("fedsub") or ():
        need = Requirement(text)
        if need.marker is not None:
            continue
        try:
            there = version(need.name)
        except PackageNotFoundError:
            yield Finding(need.name, WRONG, f"missing: pip install '{need}'")
            continue
        fits = need.specifier.contains(there, prereleases=True)
        wanted = "" if fits else f", expected {need.specifier}: pip install '{need}'"
        yield Finding(need.name, OK if fits else WRONG, f"{there}{wanted}")


def _kernels() -> Finding:
    from fedsub_core.kernels.library import kernels

    if kernels() is not None:
        return Finding("kernels", OK, "compiled")
    without = "none: PyTorch computes the same, in about twice the time. Install a C compiler, "
    return Finding("kernels", NOTE, without + "then install FedSub again")


def _extras() -> Iterator[Finding]:
    """Yield each extra: whether all that it brings is there."""
    for extra in dict.fromkeys(EXTRAS.values()):
        missing = [m for m, one in EXTRAS.items() if one == extra and find_spec(m) is None]
        said = f"not installed: pip install 'fedsub[{extra}]'" if missing else "installed"
        yield Finding(f"extra {extra}", NOTE if missing else OK, said)


def _disk(folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    state = OK if free > LEAST_DISK else WRONG
    return Finding("disk", state, f"{free / 2**30:.1f} GiB free in {there}")


def _temporary() -> Finding:
    try:
        with tempfile.TemporaryFile():
            return Finding("temporary files", OK, tempfile.gettempdir())
    except OSError as error:
        return Finding("temporary files", WRONG, f"cannot be written: {error}")


def _port(port: int, use: str) -> Finding:
    with socket.socket() as asked:
        # As servers do: who has just ended does not hold the port.
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind(("127.0.0.1", port))
        except OSError:
            taken = f"taken ({use}): one runs here already, or give yours another"
            return Finding(f"port {port}", NOTE, taken)
    return Finding(f"port {port}", OK, f"free ({use})")


def _flower() -> Iterator[Finding]:
    """Yield whether the package index has a newer Flower, and what FedSub would miss in it."""
    from fedsub.deploy.newer_flower import lacking_in, newest, verdict

    try:
        release = newest()
        if release == version("flwr"):
            yield Finding("newest Flower", OK, f"{release}, as here")
            return
        lost = list(lacking_in(release))
    except FedSubError as error:
        yield Finding("newest Flower", NOTE, f"not known: {error}")
        return
    said = f"{verdict(release)}; of what FedSub uses it lacks {len(lost) or 'nothing'}"
    yield Finding("newest Flower", NOTE, said)
    yield from (Finding(f"Flower {release}", NOTE, text) for text in lost)


@click.command(short_help="Check the installation.")
@click.option(
    "--flower",
    is_flag=True,
    help="also ask the package index for a newer Flower, and say what of it FedSub would miss",
)
@AS_JSON
def doctor(as_json: bool, flower: bool) -> None:
    """Check what FedSub needs: packages, kernels, disk, ports, clock.

    It does not use the network, unless --flower asks for it. The exit code is 1 if something is
    wrong, else 0. A note is about something optional.
    """
    found = [*findings(Path("runs").absolute()), *(_flower() if flower else ())]
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        table = Table(box=SIMPLE_HEAD)
        for title in ("", "what", "found"):
            table.add_column(title)
        for one in found:
            table.add_row(one.state, one.what, escape(one.found))  # [run] is no style
        Console().print(table)
    sys.exit(any(one.state == WRONG for one in found))
