"""What is said of a run: its round, its people, what somebody should look at, and an exit code."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedsub.status import reading, troubles
from fedsub.status.facts import Person, Status, Verdict
from fedsub.status.reading import read_status
from fedsub.status.shown import as_json, lines, show
from fedsub_core.errors import RunError
from fedsub_core.files import make_folder
from fedsub_core.metrics import MetricRow
from fedsub_server.live_file import BEAT_SECONDS

from .made_deployments import EVIL, PEOPLE, make_deployment, said


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The databases are open in another process, number 1, as a server has them."""
    monkeypatch.setattr(reading, "holder", lambda files: 1)


def people(status: Status) -> dict[str, Person]:
    return {person.client: person for person in status.people}


@pytest.mark.usefixtures("held")
def test_a_run_that_is_well(tmp_path: Path) -> None:
    with make_deployment(tmp_path / "run", live={}):
        found = read_status(tmp_path / "run")
    assert (found.state, found.verdict, found.troubles) == ("going on", Verdict.WELL, ())
    assert (found.round, found.finished, found.rounds, found.phase) == (4, 3, 10, "training")
    assert found.phase_seconds is not None and 5 <= found.phase_seconds < 60
    assert found.asked == PEOPLE and found.bytes_up == 4 * 2048 and found.bytes_down == 4 * 1024
    ann = people(found)["ann"]
    assert (ann.node, ann.version, ann.capacity, ann.usable) == (100, "0.1.0", 1.0, 3)
    assert (ann.since, ann.state, ann.seconds) == ("2026-01-02T03:04:05", "trained", 1.5)
    assert found.disk_free is not None and found.memory is not None
    assert found.seconds_left is not None and found.seconds_left > 0


@pytest.mark.usefixtures("held")
def test_who_was_revoked_or_forgotten_is_well(tmp_path: Path) -> None:
    each = said(10, 3)["people"]
    each["bob"] |= {"online": False, "retired": True}
    del each["cyd"]
    with make_deployment(tmp_path / "run", live={"people": each}, min_clients=2) as database:
        database.forget("cyd", "(forgotten 1)", 3, {})
        found = read_status(tmp_path / "run")
    who = people(found)
    assert (who["bob"].state, who["(forgotten 1)"].state) == ("retired", "forgotten")
    assert (found.verdict, found.troubles) == (Verdict.WELL, ())
    assert (found.there, len(found.expected)) == (2, 2)
    assert "2 of 2 people are there" in [*lines(found)]
    assert {"there": 2, "expected": 2}.items() <= json.loads(as_json(found)).items()


@pytest.mark.usefixtures("held")
def test_a_resumed_run_says_its_round_and_how_many_are_there(tmp_path: Path) -> None:
    """Its server asks who is there, and has told nothing of most people yet."""
    each = {"ann": said(10, 3)["people"]["ann"]}
    for told, there in ((each, 1), ({}, 0)):
        live = {"people": told, "round": 0, "phase": "gathering", "asked": [], "finished": 0}
        live |= {"since": time.time() - 90, "limit": 0.0}
        with make_deployment(tmp_path / str(there), live=live, min_clients=2):
            found = read_status(tmp_path / str(there))
        assert (found.round, found.finished, found.there) == (4, 3, there)
        assert [person.state for person in found.people].count("away") == 4 - there
        (waits,) = (one.text for one in found.troubles if one.kind == "devices")
        assert f"{there} are there, 2 are needed" in waits


@pytest.mark.usefixtures("held")
def test_who_lost_its_state_is_said_until_the_next_round(tmp_path: Path) -> None:
    with make_deployment(tmp_path / "run", live={}) as database:
        for round, clients in ((4, ["bob"]), (5, [])):
            rows = [MetricRow(round, client, None, "begins_anew", 3) for client in clients]
            database.commit(round, {}, rows)
            found = read_status(tmp_path / "run").troubles
            assert [(one.kind, [*one.clients]) for one in found] == [
                ("began anew", clients) for clients in [clients] if clients
            ]


@pytest.mark.usefixtures("held")
def test_who_is_waited_for_silent_refused_resting_and_away(tmp_path: Path) -> None:
    each = said(10, 3)["people"]
    each["bob"] |= {"refused": [3, "client 'bob', round 3: tensor head: got\nnan"]}
    each["cyd"] |= {"rests_until": 7}
    each[EVIL] |= {"online": False}
    live = {"people": each, "waited_for": ["ann"], "turned_away": {"9": "fedsub 0.0.9"}}
    made = make_deployment(
        tmp_path / "run", missing=("cyd",), refused=("bob",), live=live, min_clients=3
    )
    with made:
        found = read_status(tmp_path / "run")
    who = people(found)
    states = ["waited for", "refused", "silent", "away"]
    assert [who[client].state for client in PEOPLE] == states
    assert who["bob"].why == "round 3: tensor head: got\nnan" and who["bob"].refused == 1
    assert who["cyd"].rests_until == 7 and who["cyd"].failed == 1 and who["cyd"].usable == 3
    assert found.waited_for == ("ann",) and found.verdict is Verdict.TROUBLE
    text = "\n".join(one.text for one in found.troubles)
    for words in ("cyd: did not answer", "bob: sent what cannot be used", "is not connected",
                  "node 9 was turned away: fedsub 0.0.9", "quorum in danger: 2 of 4",
                  "3 devices are connected, 3 are needed"):  # fmt: skip
        assert words in text, words


@pytest.mark.usefixtures("held")
def test_who_was_lost_before_the_next_method_began_is_away(tmp_path: Path) -> None:
    """Its server, which began anew for `local`, has never heard of ann."""
    each = said(10, 0)["people"]
    del each["ann"]
    live = {"method": "local", "people": each, "round": 1}
    make_deployment(tmp_path / "run", rounds=3, live=live).close()
    text = (tmp_path / "run" / "run.toml").read_text()
    (tmp_path / "run" / "run.toml").write_text(text.replace('beside = ""', 'beside = "local"'))
    found = read_status(tmp_path / "run")
    assert (found.state, found.method) == ("going on", "local")
    assert [one.client for one in found.people if one.state == "away"] == ["ann"]
    assert ("away", ("ann",)) in [(one.kind, tuple(one.clients)) for one in found.troubles]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(("needed", "end"), [(3, "one fewer ends"), (4, "it ends unless more")])
def test_too_few_devices_are_said(tmp_path: Path, needed: int, end: str) -> None:
    each = said(10, 3)["people"]
    each["ann"] |= {"online": False}
    with make_deployment(tmp_path / "run", live={"people": each}, min_clients=needed):
        found = read_status(tmp_path / "run")
    (quorum,) = (one.text for one in found.troubles if one.kind == "quorum")
    assert f"3 devices are connected, {needed} are needed for a round" in quorum and end in quorum


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(("quorum", "danger"), [(0.5, False), (0.75, True)])
def test_quorum_is_in_danger_once_one_fewer_ends_the_run(
    tmp_path: Path, quorum: float, danger: bool
) -> None:
    with make_deployment(tmp_path / "run", missing=("cyd",), live={}, quorum=quorum):
        found = read_status(tmp_path / "run")
    assert any("quorum in danger: 3 of 4" in one.text for one in found.troubles) == danger


@pytest.mark.usefixtures("held")
def test_a_round_longer_than_usual_a_full_disk_and_a_certificates_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "free_bytes", lambda folder: troubles.LEAST_FREE - 1)
    monkeypatch.setattr(reading, "certificate_days", lambda path: 12.0)
    with make_deployment(tmp_path / "run", live={"since": time.time() - 400}):
        found = read_status(tmp_path / "run", tmp_path / "server.pem")
    text = "\n".join(one.text for one in found.troubles)
    assert "round 4 takes long: training for 40" in text
    assert "MB of disk are left" in text and "certificate ends in 12 days" in text


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A process of its own that has a file open."""
    code = "import sys; f = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds processes in /proc")
def test_a_run_goes_on_while_its_process_lives(tmp_path: Path) -> None:
    make_deployment(tmp_path / "run", live={}).close()
    with opened(tmp_path / "run" / "fedavg" / "state.db"):
        assert read_status(tmp_path / "run").state == "going on"
    found = read_status(tmp_path / "run")
    assert (found.state, found.verdict) == ("stopped", Verdict.STOPPED)
    assert "stopped after round 3 of 10. Start it with the same folder" in found.troubles[0].text
    assert people(found)["ann"].since is None and found.waited_for == ()


def test_why_it_ended_is_said(tmp_path: Path) -> None:
    make_deployment(tmp_path / "run", live={"ended": "round 4: 1 of 4 clients sent"}).close()
    (said,) = read_status(tmp_path / "run").troubles
    assert said.kind == "stopped"
    assert "after round 3 of 10: round 4: 1 of 4 clients sent. Start it" in said.text


def test_a_finished_run_and_one_that_has_not_begun(tmp_path: Path) -> None:
    make_deployment(tmp_path / "done", rounds=3, live={"ended": "finished"}).close()
    found = read_status(tmp_path / "done")
    assert (found.state, found.verdict, found.seconds_left) == ("finished", Verdict.WELL, None)
    make_deployment(tmp_path / "run", done=0).close()
    (tmp_path / "run" / "fedavg" / "state.db").unlink()
    found = read_status(tmp_path / "run")
    assert (found.state, found.verdict) == ("not begun", Verdict.STOPPED)


@pytest.mark.parametrize(("age", "state"), [(0.0, "starting"), (600.0, "not begun")])
def test_a_deployment_is_starting_as_long_as_its_processes_write(
    age: float, state: str, tmp_path: Path
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "pyproject.toml").touch()
    (tmp_path / "logs").mkdir()
    assert read_status(tmp_path).state == "not begun"
    log = tmp_path / "logs" / "superlink.log"
    log.touch()
    os.utime(log, (time.time() - age,) * 2)
    found = read_status(tmp_path)
    expected = Verdict.WELL if state == "starting" else Verdict.STOPPED
    assert (found.state, found.verdict) == (state, expected)
    assert not any("rounds done" in line for line in lines(found))  # nobody said how many


@pytest.mark.parametrize(("age", "state"), [(0.0, "elsewhere"), (10 * BEAT_SECONDS, "stopped")])
def test_a_run_on_another_machine_is_believed_while_it_speaks(
    tmp_path: Path, age: float, state: str
) -> None:
    live = {"host": "another.example.org", "written": time.time() - age}
    make_deployment(tmp_path / "run", live=live).close()
    found = read_status(tmp_path / "run")
    assert (found.state, found.host) == (state, "another.example.org")
    assert found.verdict is (Verdict.WELL if state == "elsewhere" else Verdict.STOPPED)


def test_the_folder_of_a_deployment(tmp_path: Path) -> None:
    make_deployment(tmp_path / "deploy" / "run", rounds=3).close()
    assert read_status(tmp_path / "deploy").kind == "deployment"


def test_what_is_none_is_refused(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "nowhere", "there is no such folder"),
        (tmp_path, "no run's, deployment's or study's"),
        (Path("fl.example.org:/var/lib/fedsub/run"), "ssh fl.example.org fedsub status"),
    ):
        with pytest.raises(RunError, match=words):
            read_status(path)
    make_deployment(tmp_path / "runs" / "one").close()
    with pytest.raises(RunError, match=r"There are runs in it, such as .*one"):
        read_status(tmp_path / "runs")


def test_a_damaged_database_and_words_of_another_version(tmp_path: Path) -> None:
    make_deployment(tmp_path / "run", live={"people": ["?"], "asked": 3, "since": "x"}).close()
    assert set(people(read_status(tmp_path / "run"))) == set(PEOPLE)
    (tmp_path / "run" / "live.json").write_bytes(b"\xff{")
    assert read_status(tmp_path / "run").state == "stopped"
    (tmp_path / "run" / "fedavg" / "state.db").write_bytes(b"SQLite format 3\0" + bytes(4000))
    with pytest.raises(RunError, match="damaged"):
        read_status(tmp_path / "run")


Snapshot = Callable[[], dict[str, Any]]


@pytest.mark.usefixtures("held")
def test_facts_of_another_kind_are_passed_over(tmp_path: Path) -> None:
    """Of another version's server, or of a file that somebody wrote into."""
    odd = {"usable": "3", "seconds": "soon", "capacity": "half", "node": [], "rests_until": "7"}
    live = {"people": {"ann": odd}, "round": float("nan"), "limit": float("inf")}
    with make_deployment(tmp_path / "run", live=live):
        status = read_status(tmp_path / "run")
        show(Console(file=StringIO()), status)
    ann = people(status)["ann"]
    assert (ann.usable, ann.seconds, ann.capacity, ann.node) == (3, None, None, None)
    assert ann.rests_until is None and status.round == 4 and status.limit is None


def snapshot(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


@pytest.mark.parametrize("going_on", [False, True])
def test_nothing_is_written_and_the_run_goes_on(tmp_path: Path, going_on: bool) -> None:
    make_folder(tmp_path / "run")
    database = make_deployment(tmp_path / "run", live={})
    if not going_on:
        database.close()
    before, names = snapshot(tmp_path / "run"), sorted(os.listdir(tmp_path / "run" / "fedavg"))
    read_status(tmp_path / "run")
    assert snapshot(tmp_path / "run") == before
    assert sorted(os.listdir(tmp_path / "run" / "fedavg")) == names
    if going_on:
        database.commit(4, {}, [])
        assert read_status(tmp_path / "run").finished == 4, "what stands in the log is read, too"
        database.close()


def test_a_study(tmp_path: Path) -> None:
    from fedsub.studies.kept_study import keep_study

    file = tmp_path / "quick.toml"
    file.write_text(
        'title = "t"\nabout = "a"\nseeds = [0, 1]\n[run]\nrounds = 2\ndata = "watch"\n'
        "[methods.local]\n"
    )
    folder = tmp_path / "study"
    (folder / "runs" / "local-seed0").mkdir(parents=True)
    keep_study(folder, file, None, {"seeds": None, "rounds": None})
    found = read_status(folder)
    assert (found.kind, found.state, found.rounds) == ("study", "not begun", 2)
    (folder / "runs" / "local-seed0" / "seconds").write_text("3.5\n")
    found = read_status(folder)
    assert (found.state, found.finished, found.seconds) == ("stopped", 1, 3.5)
    assert found.verdict is Verdict.STOPPED
    assert "stopped after 1 of 2 runs" in found.troubles[0].text


def test_it_is_one_json_object(tmp_path: Path) -> None:
    from fedsub.status.shown import as_json

    make_deployment(tmp_path / "run", rounds=3, live={"ended": "finished"}).close()
    text = as_json(read_status(tmp_path / "run"))
    found = json.loads(text)
    assert found["verdict"] == "well" and found["finished"] == 3
    assert [one["client"] for one in found["people"]] == sorted(PEOPLE)
    assert all(32 <= ord(c) < 127 or c == "\n" for c in text)
