"""`fedsub device join`: over TLS, by whom it is answered, and what a device then has."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedsub.cli import cli
from fedsub.deploy import join_device
from fedsub.deploy.certificates import make_certificates
from fedsub.deploy.join_device import fingerprint
from fedsub.deploy.joining import Joins
from fedsub.deploy.keys import make_node_key
from fedsub.deploy.page import asset
from fedsub.deploy.visitors import Visitors
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError

from .joiners import invite, link_nodes
from .private_files import assert_private
from .raw_device.connection import public_bytes
from .served_door import Served


class Federation:
    """A server with TLS, and what `fedsub device join` says."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.nodes = folder, link_nodes()
        self.ca = folder / "server" / "ca.crt"
        make_certificates(folder / "server", ["127.0.0.1"])
        ca = self.ca.read_bytes()
        self.page = {"/ca.crt": asset("ca.crt", ca, "application/x-x509-ca-cert")}
        self.visitors = Visitors(self.page, Joins(folder / "invitations", self.nodes), ca.decode())
        files = {"ssl_certfile": "server.pem", "ssl_keyfile": "server.key"}
        tls = {name: str(folder / "server" / file) for name, file in files.items()}
        self.served = Served(monkeypatch, self.visitors, tls=tls)
        self.url = f"https://127.0.0.1:{self.served.fleet}"

    def invite(self, *clients: str) -> list[str]:
        return invite(self.folder / "invitations", *clients or ("",), url=self.url)

    def join(self, code: str, name: str, *options: object, url: str = "") -> Result:
        words = ["device", "join", url or self.url, code, "--name", name]
        words += ["--dir", str(self.folder / name), *map(str, options)]
        return CliRunner().invoke(cli, words)


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Federation]:
    made = Federation(tmp_path, monkeypatch)
    yield made
    made.served.close()


@pytest.mark.parametrize("known_by", ["--ca", "--fingerprint"])
def test_a_device_makes_its_own_key_and_all_that_its_programs_need(
    federation: Federation, known_by: str
) -> None:
    (code,) = federation.invite()
    found = fingerprint(federation.ca)
    spelt = ":".join(found[at : at + 2] for at in range(0, 64, 2)).upper()
    said = federation.join(code, "anna", known_by, federation.ca if known_by == "--ca" else spelt)
    assert said.exit_code == 0, said.exception
    assert "a town" in said.output
    folder = federation.folder / "anna"
    files = {path.name for path in folder.iterdir()}
    assert files == {"node.key", "node.key.pub", "ca.crt", "device.env", "superexec.secret"}
    assert (folder / "ca.crt").read_bytes() == federation.ca.read_bytes()
    address = federation.url.removeprefix("https://")
    settings = (folder / "device.env").read_text()
    assert settings == f"FEDSUB_CLIENT=anna\nFEDSUB_SUPERLINK={address}\n"
    (folder / "node.key.pub").chmod(0o600)  # the only one that others may read
    assert_private(folder)
    key = load_ssh_private_key((folder / "node.key").read_bytes(), password=None)
    (node,) = federation.nodes.read()
    assert node.key == public_bytes(key)  # type: ignore[arg-type]


def test_the_same_command_again_changes_nothing(federation: Federation) -> None:
    (code,) = federation.invite()
    for _ in range(2):
        said = federation.join(code, "anna", "--ca", federation.ca)
        assert said.exit_code == 0, said.exception
        content = {path: path.read_bytes() for path in (federation.folder / "anna").iterdir()}
    assert len(federation.nodes.read()) == 1 and content
    refusal = federation.join(code, "ben", "--ca", federation.ca).exception
    assert isinstance(refusal, RunError) and "used" in str(refusal)
    assert not (federation.folder / "ben" / "device.env").exists()


def test_a_server_of_another_authority_learns_nothing(federation: Federation) -> None:
    """Nor does one that gives away another authority than the invitation says."""
    (code,) = federation.invite()
    make_certificates(federation.folder / "other", ["127.0.0.1"])
    other = federation.folder / "other" / "ca.crt"
    for options in ([], ["--ca", other], ["--fingerprint", fingerprint(other)]):
        refusal = federation.join(code, "anna", *options).exception
        assert isinstance(refusal, RunError) and "expected" in str(refusal)
    assert federation.nodes.read() == []
    assert federation.join(code, "anna", "--ca", federation.ca).exit_code == 0


def test_a_man_in_the_middle_who_passes_the_true_authority_on_gets_no_token(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate that he shows is none of it."""
    make_certificates(federation.folder / "true", ["127.0.0.1"])
    true = federation.folder / "true" / "ca.crt"
    (code,) = federation.invite()
    federation.page["/ca.crt"] = asset("ca.crt", true.read_bytes(), "application/x-x509-ca-cert")
    asked: list[str] = []
    answer = federation.visitors.answer

    async def noted(method: str, path: str, *rest: Any) -> Any:
        asked.append(path)
        return await answer(method, path, *rest)

    monkeypatch.setattr(federation.visitors, "answer", noted)
    refusal = federation.join(code, "anna", "--fingerprint", fingerprint(true)).exception
    assert isinstance(refusal, RunError) and "not trusted" in str(refusal)
    assert asked == ["/ca.crt"]


@pytest.mark.parametrize("name", ["..", "a b", ""])
def test_no_name_that_is_none(federation: Federation, name: str) -> None:
    (code,) = federation.invite()
    assert isinstance(federation.join(code, name, "--ca", federation.ca).exception, RunError)
    assert federation.nodes.read() == []


def test_a_key_of_another_kind_is_refused_before_anything_is_sent(federation: Federation) -> None:
    (code,) = federation.invite()
    make_node_key(federation.folder / "anna" / "node.key")
    (federation.folder / "anna" / "node.key").write_text("none")
    refusal = federation.join(code, "anna", "--ca", federation.ca).exception
    assert isinstance(refusal, RunError) and "node.key" in str(refusal)
    assert federation.nodes.read() == []


WHOLE = {"client": "anna", "key": "K", "federation": "f", "node": "1", "superlink": "a:1", "ca": ""}


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", *(json.dumps(WHOLE | wrong) for wrong in (
        {"client": "ben"}, {"key": "L"}, {"node": 1}, {"ca": None}, {"superlink": "a\nX=1"},
    ))],
)  # fmt: skip
def test_an_answer_of_anything_else_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(join_device, "_ask", lambda *_: (200, answer.encode()))
    with refused(RunError, "https://a:1", expected="SuperLink"):
        join_device._post("https://a:1", {"client": "anna", "key": "K"}, None)


def test_nobody_answers(tmp_path: Path) -> None:
    with refused(RunError, "https://127.0.0.1:9"):
        join_device.join("https://127.0.0.1:9", "0" * 20, "anna", tmp_path, None, None)
