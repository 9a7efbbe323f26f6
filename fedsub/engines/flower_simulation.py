"""Flower's own simulation engine (Ray), with a SuperLink that is started and ended here.

`fedsub run` is the faster way to simulate; this one shows that the same strategy and learner run
as a Flower app, and measures by how much.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedsub.deploy.flower_process import (
    COMPLETED,
    as_setting,
    flower_environment,
    flower_program,
    free_ports,
    is_healthy,
    run_status,
)
from fedsub.deploy.processes import Supervisor
from fedsub_core.errors import RunError


@contextmanager
def simulation_link(home: Path) -> Iterator[dict[str, str]]:
    """Start a SuperLink for simulations, yield the environment that `flwr` finds it with, end it.

    `home` becomes FLWR_HOME: configuration, database and logs. Ports are free ones on loopback.

    Raises RunError if the link is not healthy within 30 s.
    """
    env = flower_environment(home)
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "own"\n\n[superlink.own]\naddress = "{address}"\ninsecure = true\n'
    )
    command = [flower_program("flower-superlink"), "--insecure", "--simulation"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--database", str(home / "link.db")]
    with Supervisor(grace=30) as supervisor:
        supervisor.start("SuperLink", command, env, home / "superlink.log")
        supervisor.wait_until(lambda: is_healthy(f"http://{address}"), "SuperLink healthy", 30)
        yield env


def flower_run(
    app: Path,
    env: Mapping[str, str],
    clients: int,
    run_config: Mapping[str, str | int | float | bool],
    timeout: float,
) -> None:
    """Run the app in folder `app` on `clients` simulated SuperNodes, until it has completed.

    Raises RunError if Flower does not report the run as completed, with the end of its log.
    """
    settings = " ".join(f"{key}={as_setting(value)}" for key, value in run_config.items())
    flwr = flower_program("flwr")
    command = [flwr, "run", str(app), "own", "--stream", "--run-config", settings]
    command += ["--federation-config", f"num-supernodes={clients} client-resources-num-cpus=1"]
    streamed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    # `flwr run --stream` exits 0 on failure too: ask for the status.
    command = [flwr, "list", "own", "--limit", "1", "--format", "json"]
    listed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    if (status := run_status(listed.stdout)) != COMPLETED:
        tail = (streamed.stdout + streamed.stderr)[-3000:]
        raise RunError(f"Flower's run of {app} ended as {status!r}, not completed:\n{tail}")
