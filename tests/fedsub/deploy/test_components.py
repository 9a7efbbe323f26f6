"""Every process of a deployment goes by TLS, and the SuperLink by registered keys."""

import shlex
import tomllib
from pathlib import Path

import pytest

from fedsub.deploy.components import (
    CONNECTION,
    Credentials,
    connection,
    superexec,
    superlink,
    supernode,
)

CREDENTIALS = Credentials(Path("ca.crt"), Path("server.pem"), Path("server.key"), Path("secret"))
COMMANDS = {
    "superlink": superlink(CREDENTIALS, 1, 2, Path("state.db")),
    "supernode": supernode(CREDENTIALS, 1, 2, Path("anna"), {"client-id": "anna"}),
    "superexec": superexec(CREDENTIALS, 2),
}


def options(command: list[str]) -> dict[str, str]:
    """The option and what follows it, of those that have a value."""
    pairs = zip(command, [*command[1:], ""], strict=True)
    return {option: value for option, value in pairs if option.startswith("--")}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_process_goes_without_tls(name: str) -> None:
    said = options(COMMANDS[name])
    assert "--insecure" not in said
    shown = said["--ssl-ca-certfile" if name == "superlink" else "--root-certificates"]
    assert shown == "ca.crt"
    assert said["--superexec-auth-secret-file"] == "secret"


def test_the_superlink_lets_registered_keys_in_alone() -> None:
    said = options(COMMANDS["superlink"])
    assert "--enable-supernode-auth" in said
    assert (said["--ssl-certfile"], said["--ssl-keyfile"]) == ("server.pem", "server.key")
    assert options(COMMANDS["supernode"])["--auth-supernode-private-key"] == "anna"


def test_who_starts_runs_knows_the_server_by_its_certificate() -> None:
    found = tomllib.loads(connection(CREDENTIALS, 2))["superlink"]
    assert found["default"] == CONNECTION
    assert found[CONNECTION]["root-certificates"] == "ca.crt"
    assert "insecure" not in found[CONNECTION]


def test_what_a_node_is_told_is_one_argument() -> None:
    told = options(COMMANDS["supernode"])["--node-config"]
    assert shlex.split(told) == ["client-id=anna"]
