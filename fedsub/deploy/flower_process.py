"""What every process of Flower's that we start needs: environment, command, port, health."""

import json
import os
import secrets
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from fedsub_core.errors import RunError
from fedsub_core.files import make_folder

#: Flower's command line tries the network unless told not to.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "1",
}
COMPLETED = "finished:completed"
_LEAST_PORT = 10_240
_BIN = Path(sys.executable).parent


def flower_environment(home: Path) -> dict[str, str]:
    """Return our environment with `home` as Flower's folder, which is made.

    Flower finds its own programs, such as those of an app, by PATH: ours come first.
    """
    make_folder(home)
    path = f"{_BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}


def flower_program(name: str) -> str:
    """Return the path of one of Flower's programs, or one of ours, installed beside this Python.

    Raises RunError if it is not there.
    """
    program = _BIN / name
    if not program.is_file():
        raise RunError(f"{program}: no such program; install flwr beside fedsub: pip install flwr")
    return str(program)


def free_ports(count: int) -> list[int]:
    """Return different TCP ports that are free on loopback now.

    They are below those that the system gives to connections going out, where it tells them: one
    of these would take a port before the server that it is for has been started.
    """
    found: list[int] = []
    below = _first_of_clients()
    while len(found) < count:
        port = secrets.randbelow(below - _LEAST_PORT) + _LEAST_PORT if below > _LEAST_PORT else 0
        with suppress(OSError), socket.create_server(("127.0.0.1", port)) as held:
            port = int(held.getsockname()[1])
            found += [port] if port not in found else []
    return found


def _first_of_clients() -> int:
    """Return the least port that connections going out get; 0 where the system does not tell."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return 0


def is_healthy(url: str, ca: Path | None = None) -> bool:
    """Whether a SuperLink answers at `url`, whose certificate the authority `ca` signed."""
    context = None if ca is None else ssl.create_default_context(cafile=str(ca))
    try:
        with urlopen(f"{url}/health", timeout=2, context=context):
            return True
    except OSError:
        return False


def as_setting(value: str | int | float | bool) -> str:
    """Return a value as Flower's ``key=value`` arguments take it.

    Raises RunError if a text holds both kinds of quotes or a line break.
    """
    if not isinstance(value, str):
        return str(value).lower()
    quote = next((q for q in "'\"" if q not in value), None)
    # Between double quotes TOML reads backslashes as escapes.
    if quote is None or "\n" in value or (quote == '"' and "\\" in value):
        raise RunError(f"{value!r}: cannot be given to Flower; use another name, without quotes")
    return f"{quote}{value}{quote}"


def run_status(listed: str) -> str:
    """Return a run's status from what ``flwr list --format json`` printed, or "unknown"."""
    try:
        return str(json.loads(listed)["runs"][0]["status"])
    except (ValueError, KeyError, IndexError, TypeError):
        return "unknown"
