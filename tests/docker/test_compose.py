"""The compose file as docker-compose itself reads it: what is open, to whom, and who holds what."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsub.commands.status import status

Resolve = Callable[..., dict[str, Any]]
DEVICES = (1, 2, 3)


@pytest.fixture
def services(resolve: Resolve) -> dict[str, Any]:
    return dict(resolve()["services"])


def test_docker_compose_accepts_it(compose: Callable[..., str], services: dict[str, Any]) -> None:
    assert compose("config", "-q") == ""
    devices = {f"{kind}-{n}" for kind in ("supernode", "superexec") for n in DEVICES}
    assert set(services) == {"superlink", "superexec", "status", "serve", "admin"} | devices


def test_no_port_is_published_but_the_fleets_and_to_loopback_the_status(
    services: dict[str, Any], resolve: Resolve
) -> None:
    published = {
        (name, port["host_ip"], port["published"], port["target"])
        for name, service in services.items()
        for port in service.get("ports", ())
    }
    assert published == {
        ("superlink", "0.0.0.0", "9092", 9092),
        ("status", "127.0.0.1", "9464", 9464),
    }
    assert "--fleet-api-address=0.0.0.0:9092" in services["superlink"]["command"]
    assert not any("network_mode" in service for service in services.values())
    other = resolve(FEDSUB_FLEET_ADDRESS="192.0.2.7", FEDSUB_FLEET_PORT="443")
    (port,) = other["services"]["superlink"]["ports"]
    assert (port["host_ip"], port["published"], port["target"]) == ("192.0.2.7", "443", 9092)


def test_every_service_comes_back_and_may_do_nothing(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["restart"] == ("no" if name == "admin" else "always"), name
        assert service["user"] == "10001:10001", name
        assert service["cap_drop"] == ["ALL"] and "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True and service["init"] is True, name
        assert "privileged" not in service and "pid" not in service, name
        assert service["logging"]["options"]["max-size"] == "10m", name


def test_images_are_pinned_and_built_here(services: dict[str, Any], docker: Path) -> None:
    for name, service in services.items():
        image, tag = service["image"].split(":")
        side = image.removeprefix("fedsub-")
        assert re.fullmatch(r"\d+\.\d+\.\d+", tag), name
        assert Path(service["build"]["context"]) == docker.parent
        assert service["build"]["dockerfile"] == f"docker/{side}.Dockerfile"
        assert (side == "client") == name[-1].isdigit(), name


def test_users_and_addresses_are_settings(resolve: Resolve) -> None:
    settings = {"FEDSUB_UID": "1234", "FEDSUB_GID": "77", "FEDSUB_SUPERLINK": "fl.example.org:443"}
    resolved = resolve(**settings, FEDSUB_CLIENT_2="anna", FEDSUB_FLEET_INTERNAL="false")
    weak = resolve(FEDSUB_CAPACITY_3="0.25")["services"]["supernode-3"]["command"]
    for service in resolved["services"].values():
        assert service["user"] == "1234:77"
    node = resolved["services"]["supernode-2"]
    assert "--superlink=fl.example.org:443" in node["entrypoint"]
    assert node["command"] == ['--node-config=client-id="anna" data="/data" state-dir="/state"']
    (config,) = weak
    assert config.endswith('client-id="device-3" data="/data" state-dir="/state" capacity=0.25')
    assert not resolved["networks"]["fleet"].get("internal", False)


def test_networks_lead_only_where_they_must(resolve: Resolve) -> None:
    resolved = resolve()
    members: dict[str, set[str]] = {name: set() for name in resolved["networks"]}
    for name, service in resolved["services"].items():
        for network in service["networks"]:
            members[network].add(name)
    assert members == {
        "public": {"superlink"},
        "fleet": {"superlink", *(f"supernode-{n}" for n in DEVICES)},
        "control": {"superlink", "superexec", "serve", "admin"},
        "status": {"status"},
        **{f"device-{n}": {f"supernode-{n}", f"superexec-{n}"} for n in DEVICES},
    }
    internal = {name for name, how in resolved["networks"].items() if how.get("internal")}
    assert internal == set(members) - {"public", "status"}


def test_secrets_are_files_and_each_has_its_own(resolve: Resolve, docker: Path) -> None:
    resolved = resolve()
    for how in resolved["secrets"].values():
        assert set(how) == {"name", "file"} and Path(how["file"]).is_relative_to(docker / "secrets")
    for name, service in resolved["services"].items():
        folder = f"device-{name[-1]}" if name[-1].isdigit() else "server"
        for secret in service["secrets"]:
            file = Path(resolved["secrets"][secret["source"]]["file"])
            assert file.is_relative_to(docker / "secrets" / folder), name
        assert set(service.get("environment") or {}) <= {"FLWR_HOME", "TMPDIR"}
        stated = [*(service.get("entrypoint") or ()), *(service.get("command") or ())]
        wanted = set(re.findall(r"/run/secrets/([\w.-]+)", " ".join(stated)))
        # The folder of a service says where its authority lies.
        if name not in ("admin", "serve"):
            assert wanted == {secret["target"] for secret in service["secrets"]}, name
    assert [s["target"] for s in resolved["services"]["admin"]["secrets"]] == ["ca.crt"]
    given = {Path(how["file"]).suffix for how in resolved["configs"].values()}
    assert given == {".pub", ".toml"}
    assert "ca.key" not in json.dumps(resolved)


def test_every_secret_is_made(resolve: Resolve, make_certs: Callable[..., Any]) -> None:
    assert make_certs().returncode == 0
    resolved = resolve()
    files = [how["file"] for kind in ("secrets", "configs") for how in resolved[kind].values()]
    assert len(files) == 26 and all(Path(file).is_file() for file in files)


def test_data_are_read_and_states_are_kept_by_who_computes(services: dict[str, Any]) -> None:
    for n in DEVICES:
        assert "volumes" not in services[f"supernode-{n}"]
        state, data = services[f"superexec-{n}"]["volumes"]
        assert (state["type"], state["source"], state["target"]) == (
            *("volume", f"state-{n}", "/state"),
        )
        assert (data["type"], data["target"], data["read_only"]) == ("bind", "/data", True)
        assert data["source"].endswith(f"/docker/devices/device-{n}")
        assert not data["bind"].get("create_host_path", False)


def test_names_agree_with_the_command_lines(services: dict[str, Any], docker: Path) -> None:
    text = (docker / "flower.toml").read_text(encoding="utf-8")
    connection = tomllib.loads(text)["superlink"]["fedsub"]
    link = services["superlink"]
    assert link["networks"]["control"]["aliases"] == ["control"]
    assert {"--host=control", "--port=8000"} <= set(link["command"])
    assert connection == {"address": "control:8000", "root-certificates": "/run/secrets/ca.crt"}
    assert "--runtime-api-address=control:8000" in services["superexec"]["command"]
    for n in DEVICES:
        assert services[f"supernode-{n}"]["networks"][f"device-{n}"]["aliases"] == ["runtime"]
        assert "--runtime-api-address=runtime:9094" in services[f"superexec-{n}"]["command"]


def test_the_status_reads_runs_and_names_nobody(services: dict[str, Any]) -> None:
    (runs,) = services["status"]["volumes"]
    assert (runs["source"], runs["target"], runs["read_only"]) == ("runs", "/runs", True)
    program, name, *arguments = services["status"]["command"]
    with status.make_context(f"{program} {name}", arguments, resilient_parsing=True) as context:
        given = context.params
    assert given["serve"] == "0.0.0.0:9464" and not given["names"]
    assert given["folder"] == Path("/runs/first") and services["status"]["profiles"] == ["status"]


def test_devices_stop_before_their_server(services: dict[str, Any]) -> None:
    for n in DEVICES:
        assert set(services[f"supernode-{n}"]["depends_on"]) == {"superlink"}
        assert set(services[f"superexec-{n}"]["depends_on"]) == {f"supernode-{n}"}
    for name in ("superlink", *(f"supernode-{n}" for n in DEVICES)):
        assert services[name]["healthcheck"]["test"][:3] == ["CMD", "python", "-c"]
