"""`fedsub deploy`: what it writes, and what it says to do with it."""

import tomllib
from pathlib import Path

import pytest

from fedsub_core.secure.roster import Roster

from .calls import Call


@pytest.mark.parametrize(
    ("settings", "beside"), [((), ""), (("--set", "beside=local"), "local")], ids=["file", "given"]
)
def test_an_app_trains_beside_its_method_what_was_given_for_it(
    fedsub: Call, settings: tuple[str, ...], beside: str
) -> None:
    """A file that was simulated with others beside it would have devices train these, too."""
    Path("run.toml").write_text('method = "ditto"\nbeside = "local,fedavg"\n')
    assert fedsub("deploy", "app", "run.toml", "--out", "app", *settings)[0] == 0
    written = tomllib.loads(Path("app/pyproject.toml").read_text("utf-8"))
    config = written["tool"]["flwr"]["app"]["config"]
    assert (config["method"], config["beside"]) == ("ditto", beside)


def test_keys_are_to_be_registered_under_a_client_id(fedsub: Call) -> None:
    code, out, _ = fedsub("deploy", "key", "ben", "--dir", "admin")
    assert code == 0 and Path("admin/nodes/ben.pub").is_file()
    assert "flwr supernode register admin/nodes/ben.pub --name CLIENT-ID" in out


def test_a_roster_grows_and_is_its_owners(fedsub: Call) -> None:
    assert fedsub("deploy", "key", "node-1", "node-2", "--dir", "admin")[0] == 0
    people = [f"{name}=admin/nodes/node-{i}.pub" for i, name in enumerate(("anna", "ben"), 1)]
    code, out, _ = fedsub("deploy", "roster", people[0], "--dir", "admin")
    assert code == 0 and "admin/roster.txt: number 1, anna" in out
    assert 'secure-owner="/etc/fedsub/roster-owner.pub"' in out
    owner = Path("admin/roster-owner").read_bytes()
    code, out, _ = fedsub("deploy", "roster", people[1], "--dir", "admin")
    assert code == 0 and "number 2, anna, ben" in out
    assert Path("admin/roster-owner").read_bytes() == owner
    assert Path("admin/roster-owner").stat().st_mode & 0o777 == 0o600
    public = Path("admin/roster-owner.pub").read_text().strip()
    found = Roster.read(Path("admin/roster.txt").read_bytes(), public).people
    assert found == {
        name: Path(f"admin/nodes/node-{i}.pub").read_text().strip()
        for i, name in enumerate(("anna", "ben"), 1)
    }


@pytest.mark.parametrize(
    ("people", "said"),
    [
        (["anna=admin/nodes/ben.pub"], "got another key of anna, expected"),
        (["carl=admin/nodes/anna.pub"], "got one key of 'anna' and of 'carl', expected two"),
        (["carl=admin/nodes/anna"], "carl: admin/nodes/anna: got no public key"),
        (["carl=admin/nodes/none.pub"], "got No such file or directory, expected a public key"),
        (["../c=admin/nodes/ben.pub"], "got the id '../c'"),
        (["carl"], "expected KEY=VALUE, such as anna=keys/nodes/anna.pub"),
        (["carl=admin/nodes/ben.pub", "carl=admin/nodes/ben.pub"], "expected each client once"),
    ],
)
def test_what_a_roster_cannot_have_changes_nothing(
    people: list[str], said: str, fedsub: Call
) -> None:
    assert fedsub("deploy", "key", "anna", "ben", "--dir", "admin")[0] == 0
    assert fedsub("deploy", "roster", "anna=admin/nodes/anna.pub", "--dir", "admin")[0] == 0
    before = Path("admin/roster.txt").read_bytes()
    code, _, err = fedsub("deploy", "roster", *people, "--dir", "admin")
    assert code != 0 and said in err
    assert Path("admin/roster.txt").read_bytes() == before


@pytest.mark.parametrize("lost", ["cut", "owner", "readable"])
def test_a_roster_that_cannot_be_read_is_not_replaced(lost: str, fedsub: Call) -> None:
    assert fedsub("deploy", "key", "anna", "ben", "--dir", "admin")[0] == 0
    assert fedsub("deploy", "roster", "anna=admin/nodes/anna.pub", "--dir", "admin")[0] == 0
    roster, owner = Path("admin/roster.txt"), Path("admin/roster-owner")
    said = {
        "cut": "without a whole signature",
        "owner": "the key of the roster's owner: got No such file",
        "readable": "got mode 640, expected 600",
    }[lost]
    if lost == "cut":
        roster.write_bytes(roster.read_bytes()[:-9])
    elif lost == "owner":
        owner.unlink()
    else:
        owner.chmod(0o640)
    before = roster.read_bytes()
    code, _, err = fedsub("deploy", "roster", "ben=admin/nodes/ben.pub", "--dir", "admin")
    assert code != 0 and said in err
    assert roster.read_bytes() == before


def test_days_of_a_fleet_are_printed(fedsub: Call) -> None:
    sizes = ("--people", "6", "--days", "1", "--every", "12", "--samples", "20")
    code, out, _ = fedsub("deploy", "simulate", *sizes, "--out", "runs")
    assert code == 0 and "seldom" in out and "never served" in out
    assert "6 people are made of 10 real ones (watch)" in out
    (folder,) = Path("runs").iterdir()
    assert (folder / "days.csv").is_file() and (folder / "report.html").is_file()
