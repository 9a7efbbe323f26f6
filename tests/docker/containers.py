"""Services of a resolved compose file as processes, each in what a container would show it.

A root of its own, read-only, with the host's system, this Python, and the service's volumes,
secrets and configs where the file says; user, no capabilities, and the commands to the letter.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .netns import Networks

ROOT = Path(__file__).resolve().parents[2]
#: Where both images keep Python and its packages.
VENV = "/opt/venv"
_SYSTEM = ("bin", "sbin", "lib", "lib64", "usr")


def image_environment(dockerfile: Path) -> dict[str, str]:
    """Return what the last ENV of a Dockerfile sets."""
    text = dockerfile.read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.findall(r"^ENV (.+)$", text, re.MULTILINE)[-1]
    return dict(pair.split("=", 1) for pair in shlex.split(line))


@dataclass(frozen=True)
class Mount:
    """What a container sees at `target`."""

    source: Path
    target: str
    writable: bool = False


class Container:
    """A service that runs, and what it says."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    @property
    def output(self) -> str:
        """Return its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self, grace: float = 30.0) -> None:
        """End it as an engine does: SIGTERM for its first process, then SIGKILL for all."""
        with suppress(subprocess.TimeoutExpired):
            self._signal_first(signal.SIGTERM)
            self.process.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End it with all it started: with its first process its process namespace ends."""
        self._signal_first(signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def _signal_first(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            pid = self.process.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(int(child), number)


class Project:
    """A resolved compose project, with volumes that are folders in `folder`."""

    def __init__(self, resolved: Mapping[str, Any], networks: Networks, folder: Path) -> None:
        self.resolved, self.networks, self.folder = resolved, networks, folder
        self.extra: list[Mount] = []
        #: Where Python looks first: this tree is under test, whatever is installed.
        self.python_path = [str(ROOT)]
        (folder / "roots").mkdir()
        (folder / "volumes").mkdir()
        for name, service in resolved["services"].items():
            plugs = service["networks"].items()
            networks.add(name, {n: (how or {}).get("aliases", ()) for n, how in plugs})

    def volume(self, name: str) -> Path:
        """Return a volume's folder; a new one is as the images have it."""
        path = self.folder / "volumes" / name
        if not path.exists():
            path.mkdir()
            path.chmod(0o1777)
        return path

    def start(self, name: str, command: Sequence[str] = (), *, log: str = "") -> Container:
        """Start a service, with `command` in place of its own."""
        service = self.resolved["services"][name]
        own = [*(service.get("entrypoint") or ()), *(command or service["command"])]
        return self.enter(name, own, log=log)

    def enter(self, name: str, command: Sequence[str], *, log: str = "") -> Container:
        """Run any command as a service would."""
        path = self.folder / f"{log or name}.log"
        with path.open("ab") as file:
            process = subprocess.Popen(
                self._command(name, command),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        return Container(process, path)

    def run(self, name: str, command: Sequence[str], timeout: float = 120) -> tuple[int, str]:
        """Run any command as a service would, to its end; return exit code and output."""
        container = self.enter(name, command, log=f"{name}-{time.monotonic_ns()}")
        try:
            return container.process.wait(timeout), container.output
        finally:
            container.kill()

    def environment(self, name: str) -> dict[str, str]:
        """Return what the image sets, and then the service."""
        service = self.resolved["services"][name]
        dockerfile = Path(service["build"]["context"], service["build"]["dockerfile"])
        own = image_environment(dockerfile) | (service.get("environment") or {})
        return own | {"PYTHONPATH": os.pathsep.join(self.python_path)}

    def mounts(self, name: str) -> list[Mount]:
        """Return what the service's volumes, secrets and configs show it."""
        service, mounts = self.resolved["services"][name], list(self.extra)
        for volume in service.get("volumes", ()):
            source = Path(volume["source"])
            if volume["type"] == "volume":
                source = self.volume(volume["source"])
            mounts.append(Mount(source, volume["target"], not volume.get("read_only", False)))
        for kind, place in (("secrets", "/run/secrets/"), ("configs", "/")):
            for used in service.get(kind, ()):
                source = Path(self.resolved[kind][used["source"]]["file"])
                target = used["target"]
                target = target if target.startswith("/") else f"{place}{target}"
                mounts.append(Mount(source, target))
        return mounts

    def _command(self, name: str, command: Sequence[str]) -> list[str]:
        root = self.folder / "roots" / name
        root.mkdir(exist_ok=True)
        hosts = self.folder / "roots" / f"{name}.hosts"
        hosts.write_text(self.networks.hosts(name), encoding="utf-8")
        environment = self.environment(name)
        trees = (ROOT, Path(sys.prefix), Path(sys.base_prefix))
        shown = [Mount(tree, str(tree)) for tree in trees]
        shown += [Mount(Path(sys.prefix), VENV), Mount(Path("/etc"), "/etc")]
        shown += [Mount(hosts, "/etc/hosts"), *self.mounts(name)]
        uid, gid = self.resolved["services"][name]["user"].split(":")
        drop = ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs"]
        drop += ["--bounding-set=-all", "--inh-caps=-all", "--pdeathsig=KILL", "env", "-i"]
        settings = [f"{key}={value}" for key, value in environment.items()]
        entry = ["chroot", str(root), *drop, *settings, *command]
        tmpfs = self.resolved["services"][name].get("tmpfs", ())
        script = f"{_build_root(root, tmpfs, shown)}\ncd /\nexec {shlex.join(entry)}"
        # Whatever ends the test ends it, too. A change of user undoes that, so `drop` repeats it.
        apart = ["setpriv", "--pdeathsig=KILL", "unshare", "--kill-child=KILL", "--fork"]
        apart += ["--mount", "--pid", "--ipc", "sh", "-euc", script]
        return self.networks.inside(name, apart)


def _build_root(root: Path, tmpfs: Sequence[str], shown: Sequence[Mount]) -> str:
    """Return a script that makes `root` a container's, for the calling process alone."""
    at = shlex.quote(str(root))
    lines = [f"mount -t tmpfs -o mode=755 tmpfs {at}", f"mkdir {at}/proc {at}/dev {at}/sys"]
    for entry in tmpfs:
        target, _, options = entry.partition(":")
        # As an engine mounts them unless told otherwise.
        options = f"nosuid,nodev,noexec,{options}".strip(",")
        lines.append(f"mkdir -p {at}{target}; mount -t tmpfs -o {options} tmpfs {at}{target}")
    for name in _SYSTEM:
        if Path("/", name).is_symlink():
            lines.append(f"ln -s {shlex.quote(os.readlink(f'/{name}'))} {at}/{name}")
        else:
            lines += _bind(root, Mount(Path("/", name), f"/{name}"))
    for mount in shown:
        lines += _bind(root, mount)
    lines += [
        f"mount -t proc proc {at}/proc",
        f"mount --rbind /dev {at}/dev",
        f"mount --rbind /sys {at}/sys",
        f"mount -o remount,ro {at}",
    ]
    return "\n".join(lines)


def _bind(root: Path, mount: Mount) -> list[str]:
    source, target = shlex.quote(str(mount.source)), shlex.quote(f"{root}{mount.target}")
    if mount.source.is_dir():
        make = f"mkdir -p {target}"
    else:
        make = f"mkdir -p $(dirname {target}) && {{ [ -e {target} ] || : >{target}; }}"
    lines = [make, f"mount --bind {source} {target}"]
    return lines if mount.writable else [*lines, f"mount -o remount,bind,ro {target}"]
