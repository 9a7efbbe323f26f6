"""Flower's own simulation engine (Ray), with a SuperLink that is started and ended here.

`fedsub run` is the faster way to simulate; this one shows that the same strategy and learner run
as a Flower app, and measures by how much.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from fedsub_core.errors import RunError

#: Flower's command line tries the network unless told not to.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "1",
}


@contextmanager
def simulation_link(home: Path) -> Iterator[dict[str, str]]:
    """Start a SuperLink for simulations, yield the environment that `flwr` finds it with, end it.

    `home` becomes FLWR_HOME: configuration, database and logs. Ports are free ones on loopback.

    Raises
    ------
    RunError
        If the link is not healthy within 30 s.
    """
    home.mkdir(parents=True, exist_ok=True)
    port, control = _free_ports(2)
    address = f"127.0.0.1:{port}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "own"\n\n[superlink.own]\naddress = "{address}"\ninsecure = true\n'
    )
    bin = Path(sys.executable).parent
    path = f"{bin}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}
    command = [str(bin / "flower-superlink"), "--insecure", "--simulation", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--control-api-address", f"127.0.0.1:{control}"]
    command += ["--database", str(home / "link.db")]
    with (home / "superlink.log").open("w") as log:
        link = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            _wait_until_healthy(address, link, home / "superlink.log")
            yield env
        finally:
            link.terminate()
            link.wait(timeout=30)


def flower_run(
    app: Path,
    env: Mapping[str, str],
    clients: int,
    run_config: Mapping[str, object],
    timeout: float,
) -> None:
    """Run the app in folder `app` on `clients` simulated SuperNodes, until it has completed.

    Raises
    ------
    RunError
        If Flower does not report the run as completed, with the end of its log.
    """
    settings = " ".join(f"{key}={_toml(value)}" for key, value in run_config.items())
    flwr = str(Path(sys.executable).parent / "flwr")
    command = [flwr, "run", str(app), "own", "--stream", "--run-config", settings]
    command += ["--federation-config", f"num-supernodes={clients} client-resources-num-cpus=1"]
    streamed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    # `flwr run --stream` exits 0 on failure too: ask for the status.
    command = [flwr, "list", "own", "--limit", "1", "--format", "json"]
    listed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    status = json.loads(listed.stdout or "{}").get("runs", [{}])[0].get("status")
    if status != "finished:completed":
        tail = (streamed.stdout + streamed.stderr)[-3000:]
        raise RunError(f"Flower's run of {app} ended as {status!r}, not completed:\n{tail}")


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in held]
    for s in held:
        s.close()
    return ports


def _wait_until_healthy(address: str, link: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and link.poll() is None:
        try:
            with urlopen(f"http://{address}/health", timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise RunError(f"Flower's SuperLink did not come up at {address}:\n{log.read_text()[-2000:]}")
