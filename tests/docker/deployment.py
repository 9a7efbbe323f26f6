"""The compose project of a person who follows README.md: prepared, brought up, run and stopped."""

import fcntl
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedsub_core.data.federation import Federation, write_federation

from .containers import ROOT, Container, Mount, Project
from .docker_folder import certificate_script, compose_command, copy_folder, resolved
from .netns import Networks, why_not

DEVICES = ("device-1", "device-2", "device-3")
NODES = ("supernode-1", "supernode-2", "supernode-3")
#: Seconds for a step on two cores that have other things to do.
PATIENCE = 240.0


def readme_commands(verb: str) -> list[list[str]]:
    """Return what README.md gives Flower's command line in the admin service."""
    text = (ROOT / "docker" / "README.md").read_text(encoding="utf-8")
    lines = re.findall(rf"^docker compose run --rm admin ({verb} .+)$", text, re.MULTILINE)
    return [shlex.split(line) for line in lines]


class Deployment:
    """A project, what of it runs, and the steps of README.md."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.running: list[Container] = []

    def up(self) -> None:
        """Start the server, register the devices' keys, and start the devices."""
        assert not self.healthy("superlink")
        self.start("superlink")
        self.wait_until(lambda: self.healthy("superlink"), "SuperLink healthy")
        self.start("superexec")
        for arguments in (registrations := readme_commands("supernode register")):
            self.admin(*arguments)
        assert len(registrations) == len(DEVICES)

        nodes = [self.start(name) for name in NODES]
        connected = re.compile(r"SuperNode ID: \d+")
        self.wait_until(lambda: all(connected.search(n.output) for n in nodes), "connected")
        self.wait_until(lambda: all(map(self.healthy, NODES)), "SuperNodes healthy")
        for number in (1, 2, 3):
            self.start(f"superexec-{number}")

    def stop(self) -> None:
        """Stop in reverse order of starting, as compose does by `depends_on`."""
        for container in reversed(self.running):
            container.stop()

    def submit(self, settings: str) -> str:
        """Hand in a run with these settings; return its number."""
        ((run, app, connection, *_),) = readme_commands("run")
        printed = self.admin(run, app, connection, "--format", "json", "--run-config", settings)
        return str(json.loads(printed)["run-id"])

    def finish(self, number: str) -> None:
        """Wait until a run has ended, as it should."""

        def status() -> str:
            ((_, _, connection, *_),) = readme_commands("run")
            listed = self.admin("list", connection, "--run-id", number, "--format", "json")
            return str(json.loads(listed)["runs"][0]["status"])

        self.wait_until(lambda: status().startswith("finished"), "run finished")
        assert status() == "finished:completed", self.logs()

    def start(self, name: str) -> Container:
        self.running.append(self.project.start(name))
        return self.running[-1]

    def healthy(self, name: str) -> bool:
        kind, *command = self.project.resolved["services"][name]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.project.run(name, command)[0] == 0

    def admin(self, *arguments: str) -> str:
        entry = [*self.project.resolved["services"]["admin"]["entrypoint"], *arguments]
        code, output = self.project.run("admin", entry)
        assert code == 0, output
        return output

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            for container in self.running:
                ended = container.process.poll() is not None
                assert not ended, f"ended: {container.log}\n{container.output}"
            assert time.monotonic() < until, f"{what}: not within {PATIENCE:.0f} s\n{self.logs()}"
            time.sleep(0.1)

    def state(self, client: str) -> Path:
        """Return the folder of what a device keeps."""
        return self.project.volume(f"state-{client[-1]}") / client

    @contextmanager
    def kept_at_work(self, client: str) -> Iterator[None]:
        """Wait until a device has begun a round, and keep it from training meanwhile."""
        with (self.state(client) / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            inode = os.fstat(lock.fileno()).st_ino
            self.wait_until(lambda: _is_awaited(inode), f"{client} at work")
            yield

    def log(self, name: str) -> str:
        """Return what a service said."""
        return (self.project.folder / f"{name}.log").read_text(errors="replace")

    def logs(self) -> str:
        return "\n".join(f"== {c.log.name}\n{c.output[-3000:]}" for c in self.running)


def _is_awaited(inode: int) -> bool:
    """Return whether a process waits for the lock on a file."""
    waiting = (line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)
    return any(f":{inode} " in line for line in waiting)


@contextmanager
def prepared(folder: Path, federation: Federation) -> Iterator[Deployment]:
    """Prepare a project in `folder`, each device with its client's data; nothing runs yet.

    At the end all of it is stopped, and nothing may be left.
    """
    if reason := why_not():
        pytest.skip(reason)
    docker = copy_folder(folder)
    services = compose_command(docker)
    assert certificate_script(docker, folder / "programs")().returncode == 0
    for client, data in federation.clients.items():
        own = Federation(federation.card, {client: data})
        write_federation(docker / "devices" / client, own)
    if os.getuid() == 0:  # as README.md says: containers run as another user
        subprocess.run(["chown", "-R", "10001", str(docker / "devices")], check=True)
    (folder / "run").mkdir()
    described = resolved(services)
    with Networks(described["networks"]) as networks:
        project = Project(described, networks, folder / "run")
        _make_app(project, docker, folder)
        deployment = Deployment(project)
        try:
            yield deployment
        finally:
            deployment.stop()
        left = networks.processes()
    assert not left and not networks.namespaces()
    assert str(folder) not in Path("/proc/self/mounts").read_text()


def _make_app(project: Project, docker: Path, folder: Path) -> None:
    """Run the server image's own command that writes the app into the image."""
    text = (docker / "server.Dockerfile").read_text(encoding="utf-8")
    (code,) = re.findall(r"&& (fedsub deploy app .+)$", text, re.MULTILINE)
    app = folder / "app"
    app.mkdir(mode=0o777)
    app.chmod(0o777)
    project.extra.append(Mount(app, "/app", writable=True))
    exit_code, output = project.run("admin", shlex.split(code))
    assert exit_code == 0, output
    project.extra[:] = [Mount(app, "/app")]
