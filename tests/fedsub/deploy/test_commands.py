"""`fedsub deploy`: what its commands make and what they refuse, before any process starts."""

import os
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from flwr.common.config import flatten_dict

from fedsub.commands.deploy import deploy
from fedsub.deploy.flower_process import flower_environment
from fedsub.deploy.processes import Supervisor
from fedsub.engines.rehearsal_folder import choose_clients, make_workplace
from fedsub_core.config.run_config import from_flat, read_config
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError, RunError

from .private_files import assert_private


def call(*arguments: object) -> Result:
    return CliRunner().invoke(deploy, [str(a) for a in arguments])


@pytest.mark.parametrize("command", [[], ["local"], ["certificates"], ["key"], ["app"]])
def test_help(command: list[str]) -> None:
    said = call(*command, "--help")
    assert said.exit_code == 0 and "Usage" in said.output


def test_certificates_and_keys(tmp_path: Path) -> None:
    arguments = ("--dir", tmp_path / "c", "--name", "fl.example.org", "--name", "10.0.0.1")
    said = call("certificates", *arguments, "--nodes", 11)
    assert said.exit_code == 0, said.output
    names = {str(path.relative_to(tmp_path / "c")) for path in (tmp_path / "c").rglob("*.*")}
    keys = {f"nodes/node-{n:02d}.pub" for n in range(1, 12)}
    assert names == {"ca.crt", "ca.key", "server.pem", "server.key", "superexec.secret"} | keys
    assert len({(tmp_path / "c" / key).read_bytes() for key in keys}) == 11
    assert "fl.example.org, 10.0.0.1" in said.output
    before = {path: path.read_bytes() for path in (tmp_path / "c").rglob("*.*")}
    assert isinstance(call("certificates", *arguments).exception, RunError)
    assert {path: path.read_bytes() for path in (tmp_path / "c").rglob("*.*")} == before


def test_nothing_is_made_where_a_key_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "node-2.pub").write_text("registered")
    said = call("certificates", "--dir", tmp_path, "--name", "localhost", "--nodes", 2)
    assert "node-2.pub: exists already" in str(said.exception)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["node-2.pub"]


def test_renewal_and_further_keys(tmp_path: Path) -> None:
    call("certificates", "--dir", tmp_path, "--name", "fl.example.org", "--nodes", 1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    said = call("certificates", "--dir", tmp_path, "--renew")
    assert said.exit_code == 0 and "valid until 20" in said.output, said.output
    assert "restart" in said.output
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    assert changed == {"server.pem", "server.key"}
    said = call("certificates", "--dir", tmp_path, "--renew", "--nodes", 1)
    assert "fedsub deploy key" in str(said.exception)

    said = call("key", "--dir", tmp_path, "kitchen", "bed-room")
    assert said.exit_code == 0 and "kitchen.pub" in said.output, said.output
    keys = {path.name: path.read_bytes() for path in (tmp_path / "nodes").iterdir()}
    assert keys.keys() == {
        *("node-1", "node-1.pub", "kitchen", "kitchen.pub", "bed-room", "bed-room.pub")
    }
    assert len(set(keys.values())) == 6
    said = call("key", "--dir", tmp_path, "cellar", "kitchen")
    assert "kitchen: exists already" in str(said.exception)
    assert {path.name: path.read_bytes() for path in (tmp_path / "nodes").iterdir()} == keys


def test_the_app_that_a_run_starts(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('rounds = 7\nmethod = "fedavg"\n')
    folder = f"folder={tmp_path / 'run'}"
    app = tmp_path / "new" / "app"
    said = call("app", tmp_path / "run.toml", "--out", app, "--set", "seed=3", "--set", folder)
    assert said.exit_code == 0 and f"flwr run {app} --stream" in said.output, said.output
    assert "go on" not in said.output
    written = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
    config = from_flat(flatten_dict(written["tool"]["flwr"]["app"]["config"]))
    assert (config.rounds, config.method, config.seed) == (7, "fedavg", 3)
    assert (config.folder, config.beside) == (str(tmp_path / "run"), "")
    before = (app / "pyproject.toml").read_bytes()
    again = call("app", "--out", app)
    assert isinstance(again.exception, RunError) and "not there yet" in str(again.exception)
    assert (app / "pyproject.toml").read_bytes() == before
    other = call("app", "--out", tmp_path / "other")
    assert other.exit_code == 0 and "--set folder=" in other.output


@pytest.mark.parametrize(
    ("setting", "words"),
    [("folder=run", "absolute path"), ("rouns=2", "Did you mean"), ("rounds", "KEY=VALUE")],
)
def test_an_app_that_could_not_run_is_not_written(tmp_path: Path, setting: str, words: str) -> None:
    said = call("app", "--out", tmp_path / "app", "--set", setting)
    assert isinstance(said.exception, ConfigError) and words in str(said.exception)
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("--clients", 5), DataError, "4 clients there, 5 SuperNodes asked for"),
        (("--set", "rounds"), ConfigError, "expected KEY=VALUE"),
        (("--set", "rouns=2"), ConfigError, "Did you mean 'rounds'"),
        (("--set", "fedsub.fusion=x"), ConfigError, "fusion"),
        (("--data", "/nowhere"), DataError, "0 clients there"),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_folder_is_made(
    town_folder: Path, tmp_path: Path, arguments: tuple[str, ...], error: type, words: str
) -> None:
    out = tmp_path / "out"
    said = call("local", "--data", town_folder, "--out", out, *arguments)
    assert isinstance(said.exception, error), said.output
    assert words in str(said.exception)
    assert not out.exists()


def test_bad_data_of_a_chosen_client_are_refused(town_folder: Path, tmp_path: Path) -> None:
    (town_folder / "clients" / "p4.npz").write_bytes(b"")
    config = read_config(None, {"data": str(town_folder)})
    assert list(choose_clients(config, 3).clients) == ["p1", "p2", "p3"]
    with pytest.raises(DataError, match=r"p4\.npz"):
        choose_clients(config, 4)


def test_a_device_holds_its_own_data_alone(town_folder: Path, tmp_path: Path) -> None:
    federation = choose_clients(read_config(None, {"data": str(town_folder)}), 2)
    places = [make_workplace(tmp_path / "out", federation) for _ in range(2)]
    assert places[0].folder != places[1].folder
    for client in ("p1", "p2"):
        own = read_federation(places[0].device(client))
        assert list(own.clients) == [client] and own.card == federation.card
        np.testing.assert_array_equal(own.clients[client].x, federation.clients[client].x)
        assert places[0].device(client).is_dir()
        assert places[0].key(client).stat().st_mode & 0o777 == 0o600
    assert all(path.is_file() for path in vars(places[0].credentials).values())


def test_what_a_rehearsal_holds_is_its_owners_alone(town_folder: Path, tmp_path: Path) -> None:
    federation = choose_clients(read_config(None, {"data": str(town_folder)}), 2)
    before = os.umask(0)
    try:
        place = make_workplace(tmp_path / "out", federation)
        env, link = flower_environment(place.home("superlink")), place.folder / "link.db"
        command = [sys.executable, "-c", f"open({str(link)!r}, 'w')"]
        with Supervisor() as supervisor:
            task = supervisor.start("link", command, env, place.log("link"), task=True)
            supervisor.finish([task], 60)
    finally:
        os.umask(before)
    assert link.is_file() and place.log("link").is_file()
    assert_private(tmp_path / "out")
    shown = place.credentials.ca, place.key("p1").with_suffix(".pub")
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in shown)


def test_a_folder_that_cannot_be_made_is_refused(town_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    federation = choose_clients(read_config(None, {"data": str(town_folder)}), 1)
    with pytest.raises(RunError, match="choose another --out"):
        make_workplace(tmp_path / "file", federation)
