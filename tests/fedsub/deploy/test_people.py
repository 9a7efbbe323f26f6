"""From the invitation to the roster by the commands, on a real SuperLink; codes and their sheet."""

import csv
import html
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import segno
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedsub.cli import cli
from fedsub.deploy import guarded_superlink
from fedsub.deploy.codes import plain
from fedsub.deploy.invitations import read_batches
from fedsub.deploy.joining import Joins, read_joined, write_keys
from fedsub.deploy.roster import joined_keys
from fedsub.deploy.sheet import read_codes
from fedsub.deploy.superlink_options import own_options
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.flower.modules import GRPC, HTTP
from fedsub_core.secure.roster import public_of

from .fleet_api import Fleet
from .joiners import invite, link_nodes, new_key, request
from .private_files import assert_private
from .raw_device.connection import OVER_HTTP, Refused

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")
URL = "https://fl.example.org:9092"


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def invited(folder: Path, *options: object, url: str = URL) -> list[dict[str, str]]:
    out = folder / f"sheet{len(list(folder.glob('sheet*')))}"
    said = call(
        "deploy", "invite", "--dir", folder / "invitations", "--out", out, "--url", url, *options
    )
    assert said.exit_code == 0, said.exception
    with (out / "codes.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_invitations_are_codes_for_people_and_hashes_for_the_server(tmp_path: Path) -> None:
    rows = invited(tmp_path, "--count", 3, "--federation", "Walks <of> a town")
    assert len(rows) == len({plain(row["code"]) for row in rows}) == 3
    assert [row["link"] for row in rows] == [f"{URL}/#{row['code']}" for row in rows]
    assert_private(tmp_path / "sheet0")
    server = b"".join(path.read_bytes() for path in (tmp_path / "invitations").iterdir())
    sheet = (tmp_path / "sheet0" / "sheet.html").read_text()
    assert sheet.count(html.escape("Walks <of> a town")) == 3 and "http://" not in sheet
    for row in rows:
        assert row["code"].encode() not in server
        drawn = segno.make(row["link"], error="m", micro=False)
        assert drawn.svg_inline(omitsize=True, border=2) in sheet and row["code"] in sheet
    found = read_batches(tmp_path / "invitations").values()
    assert [one.number for one in found] == [row["number"] for row in rows]
    assert read_codes(tmp_path / "sheet0" / "codes.csv") == {r["number"]: r["code"] for r in rows}


@pytest.mark.parametrize(
    ("options", "error"),
    [(["--count", 2, "--person", "a"], ConfigError), (["--days", 0], ConfigError),
     (["--person", "../a"], ConfigError), (["--ca", __file__], RunError)],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_before_a_code_is_made(
    tmp_path: Path, options: list[object], error: type
) -> None:
    said = call(
        "deploy", "invite", "--dir", tmp_path / "in", "--out", tmp_path / "out", "--url", URL,
        *options,
    )  # fmt: skip
    assert isinstance(said.exception, error), said.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not OVER_HTTP, reason="joins need Flower 1.42: CI runs this with it")
def test_people_join_are_listed_and_revoked(fleet: Fleet) -> None:
    ca = fleet.folder / "ca.crt"
    first, second = invited(fleet.folder, "--count", 2, "--ca", ca, url=f"https://{fleet.address}")
    known = "--fingerprint", first["fingerprint"]
    url, own = f"https://{fleet.address}", fleet.folder / "anna-device"
    join = "device", "join", url, first["code"], "--name", "anna", "--dir", own, *known
    assert call(*join).exit_code == 0
    (own / "node.key").rename(fleet.folder / "anna")
    (own / "node.key.pub").rename(fleet.folder / "anna.pub")
    anna = fleet.connect("anna")
    assert fleet.online() == {anna.node.node_id}

    people = ["deploy", "people", "--dir", fleet.folder / "invitations"]
    asked = [*people, "--superlink", fleet.control, "--ca", ca]
    listed = call(*asked).output
    assert "1 open, 1 used, 0 ended" in listed and "online" in listed and "anna" in listed
    joined = fleet.folder / "joined.csv"
    assert call(*asked, "--keys", joined).exit_code == 0
    codes = {row["number"]: row["code"] for row in (first, second)}
    key = load_ssh_private_key((fleet.folder / "anna").read_bytes(), password=None)
    assert joined_keys(joined, codes) == {"anna": public_of(key)}  # type: ignore[arg-type]

    assert isinstance(call(*people, "--revoke", "anna").exception, ConfigError)
    assert isinstance(call(*asked, "--revoke", "ben").exception, RunError)
    said = call(*asked, "--revoke", "anna", "--withdraw", second["number"], "--keys", joined)
    assert "Revoked: anna" in said.output and "0 open, 1 used" in said.output, said.exception
    assert joined_keys(joined, codes) == {}
    with pytest.raises(Refused):
        for _ in range(10_000):  # the door asks every 5 s who is registered
            anna.pull()
    (fleet.folder / "anna").rename(own / "node.key")
    assert "revoked" in str(call(*join).exception)
    later = "device", "join", url, second["code"], "--name", "ben", "--dir", own, *known
    assert "unknown" in str(call(*later).exception)
    fleet.connections.clear()


def test_what_a_server_passes_on_is_the_persons_own_key(tmp_path: Path) -> None:
    """It can leave people out. It can put nobody in, and no other key, name or order of theirs."""
    rows = invited(tmp_path, "--count", 2)
    codes, folder = {row["number"]: row["code"] for row in rows}, tmp_path / "invitations"
    joins = Joins(folder, link_nodes())
    (strange,) = invite(folder, "")
    people = [(rows[0]["code"], "anna"), (rows[1]["code"], "ben"), (strange, "eve")]
    keys = {name: new_key() for _, name in people}
    for code, name in people:
        joins.join(request(code, name, keys[name]))
    joined, path = read_joined(folder), tmp_path / "joined.csv"
    write_keys(path, joined)
    expected = {name: public_of(keys[name]) for name in ("anna", "ben")}
    assert joined_keys(path, codes) == expected, "eve's code is none of the owner's"

    anna, ben, eve = joined
    for wrong in (
        replace(anna, key=eve.key),
        replace(anna, client="eve"),
        replace(anna, number=ben.number),
        replace(eve, number=anna.number),
    ):
        write_keys(path, [wrong, ben])
        with refused(RunError, path):
            joined_keys(path, codes)
    write_keys(path, [anna, anna])
    with refused(RunError, path, "anna"):
        joined_keys(path, codes)


def test_a_roster_has_who_joined(tmp_path: Path) -> None:
    rows = invited(tmp_path, "--count", 1)
    joins = Joins(tmp_path / "invitations", link_nodes())
    joins.join(request(rows[0]["code"], "anna", key := new_key()))
    write_keys(tmp_path / "joined.csv", read_joined(tmp_path / "invitations"))
    roster = ["deploy", "roster", "--dir", tmp_path / "owner"]
    assert isinstance(call(*roster).exception, ConfigError)
    whole = [*roster, "--joined", tmp_path / "joined.csv"]
    assert isinstance(call(*whole).exception, ConfigError)
    said = call(*whole, "--codes", tmp_path / "sheet0" / "codes.csv")
    assert said.exit_code == 0 and "anna" in said.output, said.exception
    assert f"anna {public_of(key)}" in (tmp_path / "owner" / "roster.txt").read_text()


def test_flower_of_before_has_no_door(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--port", "1", "--page", "p", "--invitations=i", "--host", "h"]
    own, left = own_options(words, HTTP)
    assert (own, left) == (
        {"page": Path("p"), "invitations": Path("i"), "memory": None},
        ["--port", "1", "--host", "h"],
    )
    assert own_options(left, GRPC) == (dict.fromkeys(own), left)
    for option in ("--page", "--invitations"):
        with refused(RunError, "--page", got=GRPC, expected=HTTP):
            own_options([option, "x"], GRPC)
    monkeypatch.setattr(sys, "argv", ["fedsub-superlink", "--page", "x"])
    monkeypatch.setattr(guarded_superlink, "demand_deployable", lambda: GRPC)
    monkeypatch.setattr(os, "umask", lambda mask: 0)  # it would stay this process's
    with pytest.raises(SystemExit, match=re.escape(HTTP)):
        guarded_superlink.main()
