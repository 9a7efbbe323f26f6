"""Machines on wires without an engine: network namespaces, joined by bridges as in compose.

All bridges lie in a namespace of their own, so that the host's interfaces, addresses and firewall
neither help nor disturb, and no machine has a way to anywhere but its networks.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4


def why_not() -> str:
    """Return why namespaces cannot be made here, "" if they can."""
    missing = [p for p in ("ip", "unshare", "setpriv", "chroot") if shutil.which(p) is None]
    if missing:
        return f"needs {', '.join(missing)} (Debian: iproute2, util-linux, coreutils)"
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    probe = f"fedsub-{uuid4().hex[:6]}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not allowed here: {made.stderr.strip()}"
    bridge = ["ip", "-n", probe, "link", "add", "br0", "type", "bridge"]
    bridged = subprocess.run(bridge, capture_output=True, text=True)
    entered = subprocess.run(
        ["ip", "netns", "exec", probe, "unshare", "--mount", "--pid", "--fork", "true"],
        capture_output=True,
        text=True,
    )
    _ip("netns", "del", probe)
    failed = next((p for p in (bridged, entered) if p.returncode), None)
    return f"namespaces are not allowed here: {failed.stderr.strip()}" if failed else ""


@dataclass(frozen=True)
class Traffic:
    """What has gone over a cable in one direction: `size` bytes in frames."""

    size: int
    frames: int

    @property
    def payload(self) -> int:
        """Bytes that TCP carried: a frame has headers of 14 + 20 + 32 bytes."""
        return self.size - 66 * self.frames


@dataclass
class _Machine:
    namespace: str
    #: By network: the end of its cable at the bridge, its address, and its names there.
    cables: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)


class Networks:
    """Networks and the machines on them, gone at the end of the ``with`` block.

    Parameters
    ----------
    networks : names; each becomes a bridge that leads nowhere else.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self.tag = f"fedsub-{uuid4().hex[:6]}"
        self.networks = {name: number for number, name in enumerate(networks, 1)}
        self.machines: dict[str, _Machine] = {}
        self._switch = f"{self.tag}-switch"
        self._cables = 0

    def __enter__(self) -> Networks:
        _ip("netns", "add", self._switch)
        try:
            for number in self.networks.values():
                self._bridge("add", f"br{number}", "type", "bridge")
                self._bridge("set", f"br{number}", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # With a namespace go the interfaces in it, and with those the other ends of their cables.
        for namespace in self.namespaces():
            _ip("netns", "del", namespace)

    def namespaces(self) -> list[str]:
        """Return those of our namespaces that exist."""
        listed = _ip("netns", "list").split()
        return [name for name in listed if name.startswith(self.tag)]

    def processes(self) -> list[int]:
        """Return what runs in our namespaces."""
        return [
            int(pid) for name in self.namespaces() for pid in _ip("netns", "pids", name).split()
        ]

    def add(self, name: str, networks: Mapping[str, Iterable[str]]) -> None:
        """Add a machine, on `networks` and known there also by these aliases."""
        machine = self.machines[name] = _Machine(f"{self.tag}-{name}")
        _ip("netns", "add", machine.namespace)
        self._inside(machine, "set", "lo", "up")
        for interface, (network, aliases) in enumerate(networks.items()):
            number = self.networks[network]
            self._cables += 1
            cable, end = f"c{self._cables}", f"eth{interface}"
            address = f"10.{number}.0.{len(self.machines) + 1}"
            self._bridge("add", cable, "type", "veth", "peer", end, "netns", machine.namespace)
            self._bridge("set", cable, "master", f"br{number}", "up")
            _ip("-n", machine.namespace, "address", "add", f"{address}/24", "dev", end)
            # As on a wire, where a frame is no longer than others take; so bytes are counted right.
            self._inside(machine, "set", end, "gso_max_segs", "1", "up")
            self._keep_order(self._switch, cable)
            self._keep_order(machine.namespace, end)
            machine.cables[network], machine.addresses[network] = cable, address
            machine.names[network] = [name, *aliases]

    def hosts(self, name: str) -> str:
        """Return what ``/etc/hosts`` of a machine says: whom it can name, on its own networks."""
        lines = ["127.0.0.1 localhost"]
        for network in self.machines[name].cables:
            for machine in self.machines.values():
                if network in machine.cables:
                    names = " ".join(machine.names[network])
                    lines.append(f"{machine.addresses[network]} {names}")
        return "\n".join(lines) + "\n"

    def address(self, name: str, network: str) -> str:
        """Return a machine's address on one of its networks."""
        return self.machines[name].addresses[network]

    def inside(self, name: str, command: Iterable[str]) -> list[str]:
        """Return `command` as it runs in a machine's namespace."""
        return ["ip", "netns", "exec", self.machines[name].namespace, *command]

    def cut(self, name: str, network: str | None = None) -> None:
        """Pull a machine's cable to `network`, None: all its cables. Nobody is told."""
        self._set_cables(name, network, "down")

    def restore(self, name: str, network: str | None = None) -> None:
        """Plug in again what :meth:`cut` pulled."""
        self._set_cables(name, network, "up")

    def traffic(self, name: str, network: str) -> tuple[Traffic, Traffic]:
        """Return what a machine has sent to `network` and what it got from it."""
        machine = self.machines[name]
        end = f"eth{list(machine.cables).index(network)}"
        shown = _ip("-n", machine.namespace, "-stats", "-json", "link", "show", "dev", end)
        (link,) = json.loads(shown)
        sent, got = (link["stats64"][way] for way in ("tx", "rx"))
        return Traffic(sent["bytes"], sent["packets"]), Traffic(got["bytes"], got["packets"])

    def _set_cables(self, name: str, network: str | None, state: str) -> None:
        for own, cable in self.machines[name].cables.items():
            if network in (None, own):
                # At the bridge's port: the machine keeps its interface, address and connections.
                bridge = ["nomaster"] if state == "down" else ["master", f"br{self.networks[own]}"]
                self._bridge("set", cable, *bridge)

    def _keep_order(self, namespace: str, interface: str) -> None:
        # One CPU takes in all frames, as on a wire they keep their order. Where several do, frames
        # overtake each other, and TCP takes them for lost and sends up to half of them again.
        queue = f"/sys/class/net/{interface}/queues/rx-0/rps_cpus"
        _ip("netns", "exec", namespace, "sh", "-c", f"echo 1 > {queue}")

    def _bridge(self, *arguments: str) -> None:
        _ip("-n", self._switch, "link", *arguments)

    def _inside(self, machine: _Machine, *arguments: str) -> None:
        _ip("-n", machine.namespace, "link", *arguments)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
