"""The commands of a deployment's processes: TLS everywhere, SuperNodes known by registered keys.

Under process isolation a SuperLink or SuperNode runs no app itself: a SuperExec beside it does, and
shows with a shared secret that it may. Only so a run outlives a restart of its SuperLink.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedsub.deploy.flower_process import as_setting, flower_program

HOST = "127.0.0.1"
#: The name by which Flower's command line knows the SuperLink.
CONNECTION = "fedsub"


@dataclass(frozen=True)
class Credentials:
    """Files that prove who is who: authority, server certificate and key, SuperExec's secret."""

    ca: Path
    certificate: Path
    key: Path
    secret: Path

    @property
    def server(self) -> list[str]:
        """Options of a process that answers others."""
        return [
            "--ssl-ca-certfile",
            str(self.ca),
            "--ssl-certfile",
            str(self.certificate),
            "--ssl-keyfile",
            str(self.key),
            "--isolation",
            "process",
            "--superexec-auth-secret-file",
            str(self.secret),
        ]


def superlink(credentials: Credentials, fleet: int, port: int, database: Path) -> list[str]:
    """Return the command of a SuperLink: SuperNodes come to port `fleet`, all others to `port`."""
    command = [flower_program("fedsub-superlink"), *credentials.server, "--enable-supernode-auth"]
    command += ["--fleet-api-address", f"{HOST}:{fleet}", "--host", HOST, "--port", str(port)]
    return [*command, "--database", str(database)]


def supernode(
    credentials: Credentials, fleet: int, port: int, key: Path, settings: Mapping[str, str | float]
) -> list[str]:
    """Return the command of a SuperNode with a private `key` and the node config `settings`."""
    command = [flower_program("fedsub-supernode"), *credentials.server]
    command += ["--root-certificates", str(credentials.ca), "--superlink", f"{HOST}:{fleet}"]
    command += ["--auth-supernode-private-key", str(key), "--host", HOST, "--port", str(port)]
    config = " ".join(f"{name}={as_setting(value)}" for name, value in settings.items())
    return [*command, "--node-config", config]


def superexec(credentials: Credentials, port: int) -> list[str]:
    """Return the command of the SuperExec for the SuperLink or SuperNode at `port`."""
    command = [flower_program("fedsub-superexec"), "--root-certificates", str(credentials.ca)]
    command += ["--runtime-api-address", f"{HOST}:{port}"]
    return [*command, "--superexec-auth-secret-file", str(credentials.secret)]


def connection(credentials: Credentials, port: int) -> str:
    """Return the text of Flower's ``config.toml``, by which its command line finds `port`."""
    return (
        f"[superlink]\ndefault = {as_setting(CONNECTION)}\n\n[superlink.{CONNECTION}]\n"
        f"address = {as_setting(f'{HOST}:{port}')}\n"
        f"root-certificates = {as_setting(str(credentials.ca))}\n"
    )
