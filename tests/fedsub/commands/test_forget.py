"""`fedsub forget`: a person is gone from a run's folder, and the run goes on without it."""

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import dump_toml, read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import RunError
from fedsub_server.forgotten import FORGOTTEN_FILE
from fedsub_server.run_folder import TRANSCRIPT_FILE
from fedsub_server.rundb import RunDatabase
from strategies.parts.roster import Roster

from .calls import Call, assert_refused

METHODS = ("fedsub", "fedavg", "local")
GONE, STAYS = "somebody-unusual", ("p1", "p2", "p4")


@pytest.fixture
def people(town: Callable[..., Federation], tmp_path: Path) -> Federation:
    """A federation in ./data, one of whose people has a name that is found nowhere by chance."""
    made = town()
    clients = dict(made.clients)
    clients[GONE] = type(clients["p3"])(GONE, clients.pop("p3").x, made.clients["p3"].y)
    write_federation(tmp_path / "data", named := Federation(made.card, clients))
    return named


@pytest.fixture
def folder(fedsub: Call, people: Federation) -> Path:
    """The folder of a run of two rounds, whose devices and server remember what they sent."""
    code, _, err = fedsub(
        *("run", "--data", "data", "--threads", 1, "--rounds", 2, "--out", "out"),
        *("--beside", "fedavg,local", "--upload-encoding", "delta"),
        *("--set", "fedsub.k-selection=fixed:1", "--set", "fedsub.fusion=avg"),
    )
    assert (code, err) == (0, "")
    (made,) = Path("out").iterdir()
    return made


def holding(folder: Path, name: str) -> list[str]:
    """The files of a folder in whose name or bytes `name` stands."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [p.name for p in files if name in p.name or name.encode() in p.read_bytes()]


def test_nothing_of_a_forgotten_person_is_left(fedsub: Call, folder: Path) -> None:
    assert len(holding(folder, GONE)) == 3 * len(METHODS) + 1  # state, metrics, model; data.json
    with RunDatabase(folder / "fedsub" / "state.db") as database:
        before, rows = database.load()[1]["server"], list(database.metrics())
    code, out, err = fedsub("forget", folder, GONE, "--yes")
    assert (code, err) == (0, "") and "'(forgotten 1)'" in out and "What others learnt from" in out
    assert holding(folder, GONE) == []
    with RunDatabase(folder / "fedsub" / "state.db") as database:
        after, left = database.load()[1], list(database.metrics())
    # The others' rows are what they were, the numbers of all stay.
    roster = Roster.of(before["clients"])
    kept = [roster.place[client] for client in STAYS]
    assert Roster.of(after["server"]["clients"]).clients == STAYS
    for name in ("prototypes", "omega", "clusters", "rows.linear1", "masks.linear1"):
        assert torch.equal(after["server"][name], before[name][kept]), name
    assert {f"client/{client}" for client in STAYS} == after.keys() - {"server"}
    renamed = [row._replace(client="(forgotten 1)") if row.client == GONE else row for row in rows]
    assert sorted(left, key=str) == sorted(renamed, key=str) and len(left) > 100


def test_where_its_prototypes_lay_is_gone_too(fedsub: Call, people: Federation) -> None:
    code, _, err = fedsub(
        *("run", "--data", "data", "--threads", 1, "--rounds", 2, "--out", "out"),
        *("--method", "fedproto", "--beside", ""),
    )
    assert (code, err) == (0, "")
    (made,) = Path("out").iterdir()

    def placed() -> set[str]:
        with RunDatabase(made / "fedproto" / "state.db") as database:
            return {row.client for row in database.metrics("prototype_x")}

    assert placed() == {"", GONE, *STAYS}
    assert fedsub("forget", made, GONE, "--yes")[0] == 0
    assert placed() == {"", *STAYS}


@pytest.mark.usefixtures("blank_figures")
def test_its_report_is_written_anew(fedsub: Call, folder: Path) -> None:
    assert fedsub("report", folder)[0] == 0
    assert {"report.html", "people.csv"} <= set(holding(folder, GONE))
    assert_refused(fedsub("forget", folder, "somebody-usual", "--yes"), "nothing in this run")
    assert fedsub("forget", folder, GONE, "--yes")[0] == 0
    assert holding(folder, GONE) == []
    assert "(forgotten 1)" in (folder / "report.html").read_text("utf-8")
    assert (folder / "figures" / "people.png").is_file()


def test_a_run_goes_on_without_whom_it_forgot(fedsub: Call, folder: Path) -> None:
    """The data need not be cut; somebody else who is in them without a part is still refused."""
    assert fedsub("forget", folder, GONE, "--yes")[0] == 0
    data = Path("data") / "clients"
    shutil.copy(data / f"{GONE}.npz", new := data / "p0.npz")
    resumed = fedsub("run", "--resume", folder, "--rounds", 3)
    assert_refused(resumed, "clients (p0) is new")
    new.unlink()
    assert (data / f"{GONE}.npz").is_file()
    assert fedsub("run", "--resume", folder, "--rounds", 3)[0] == 0
    for name in METHODS:
        with RunDatabase(folder / name / "state.db") as database:
            tested = {(r.round, r.client) for r in database.metrics("macro_f1")}
        assert {client for round, client in tested if round == 3} == set(STAYS)
        assert {client for round, client in tested if round < 3} == {*STAYS, "(forgotten 1)"}
    assert holding(folder, GONE) == []


def test_who_forgot_whom_must_be_readable(fedsub: Call, folder: Path) -> None:
    assert fedsub("forget", folder, GONE, "--yes")[0] == 0
    (folder / FORGOTTEN_FILE).write_text("{")
    said = "whom this run was told to forget"
    assert_refused(fedsub("run", "--resume", folder, "--rounds", 3), FORGOTTEN_FILE, said)
    before = {path: path.read_bytes() for path in folder.rglob("*.db")}
    assert_refused(fedsub("forget", folder, "p2", "--yes"), FORGOTTEN_FILE, said)
    assert {path: path.read_bytes() for path in before} == before


def test_nothing_is_left_of_a_method_that_the_run_has_no_longer(fedsub: Call, folder: Path) -> None:
    """A deployed run may go on with other methods; what the first ones kept is in its folder."""
    local = read_config(None, {"method": "local", "beside": "", "data": "data"})
    (folder / "run.toml").write_text(dump_toml(local))
    assert len(holding(folder, GONE)) == 3 * len(METHODS) + 1
    assert fedsub("forget", folder, GONE, "--yes")[0] == 0
    assert holding(folder, GONE) == []


def test_the_second_has_another_name_in_the_metrics(fedsub: Call, folder: Path) -> None:
    for client, alias in ((GONE, "(forgotten 1)"), ("p2", "(forgotten 2)")):
        assert alias in fedsub("forget", folder, client, "--yes")[1]
    with RunDatabase(folder / "local" / "state.db") as database:
        assert database.clients() == ["(forgotten 1)", "(forgotten 2)", "p1", "p4"]


def test_what_was_stopped_half_way_can_be_done_again(
    fedsub: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise RunError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("fedsub_server.forgetting.export_csv", full)
        assert_refused(fedsub("forget", folder, GONE, "--yes"), "no space left")
    (left,) = (p for p in folder.glob("*/metrics.csv") if p.parent.name == "fedavg")
    assert GONE in left.read_text("utf-8")
    # As if it had been stopped in the last of the databases.
    for name in ("fedsub", "local"):
        shutil.rmtree(folder / name)
    (folder / "run.toml").write_text(
        dump_toml(read_config(None, {"method": "fedavg", "beside": ""}))
    )
    assert fedsub("forget", folder, GONE, "--yes")[0] == 0
    assert holding(folder, GONE) == []


def test_whom_secure_sums_hold_is_forgotten_by_no_method(fedsub: Call, people: Federation) -> None:
    code, _, err = fedsub(
        *("run", "--data", "data", "--threads", 1, "--rounds", 2, "--out", "out"),
        *("--method", "fedsub-ridge", "--beside", "fedavg", "--encoder", "relu:8"),
        *("--robust", "none", "--standardise", "client", "--secure-aggregation", "true"),
    )
    assert (code, err) == (0, "")
    (made,) = Path("out").iterdir()
    before = holding(made, GONE)
    said = "with secure-aggregation: everybody's sums hold this person"
    assert_refused(fedsub("forget", made, GONE, "--yes"), said)
    assert holding(made, GONE) == before


def test_its_name_is_taken_out_of_a_transcript(fedsub: Call, people: Federation) -> None:
    code, _, err = fedsub(
        *("run", "--data", "data", "--threads", 1, "--rounds", 1, "--out", "out"),
        *("--method", "fedavg", "--beside", "", "--robust", "none"),
        *("--standardise", "client", "--secure-aggregation", "true"),
    )
    assert (code, err) == (0, "")
    (made,) = Path("out").iterdir()
    transcript = made / "fedavg" / TRANSCRIPT_FILE
    assert TRANSCRIPT_FILE in holding(made, GONE)
    assert fedsub("forget", made, GONE, "--yes")[0] == 0
    assert holding(made, GONE) == []
    code, out, _ = fedsub("deploy", "verify", transcript)
    assert code == 0 and "1 have no name" in out


def test_a_round_that_is_committed_meanwhile_is_not_undone(fedsub: Call, folder: Path) -> None:
    path = folder / "fedsub" / "state.db"
    with RunDatabase(path) as forgetting, RunDatabase(path) as running:
        round, state = forgetting.load()
        running.commit(round + 1, running.load()[1], [])
        with refused(RunError, "round 3", expected="round 2"):
            forgetting.forget(GONE, "(forgotten 1)", round, state)
        assert running.load()[0] == 3 and GONE in running.clients()


def test_a_run_that_is_going_on_ends_and_keeps_nothing(fedsub: Call, folder: Path) -> None:
    """What it still has in memory must not bring the person back."""
    with RunDatabase(folder / "fedsub" / "state.db") as running:
        _, state = running.load()
        assert fedsub("forget", folder, GONE, "--yes")[0] == 0
        with pytest.raises(RunError, match="a client was forgotten while this run was going on"):
            running.commit(3, state, [])
    assert holding(folder, GONE) == []


def test_who_was_never_there(fedsub: Call, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.db")}
    refused = fedsub("forget", folder, "somebody-usual", "--yes")
    assert_refused(refused, "nothing in this run is of a client 'somebody-usual'", GONE)
    assert_refused(fedsub("forget", "data", "p1", "--yes"), "not a run's folder")
    assert {path: path.read_bytes() for path in before} == before


def test_it_asks_first(fedsub: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    code, out, _ = fedsub("forget", folder, GONE)
    assert code == 1 and "This cannot be undone" in out and len(holding(folder, GONE)) > 0
