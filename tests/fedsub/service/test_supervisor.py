"""The supervisor: rounds are submitted once each, whatever fails or is killed, by a made clock."""

from pathlib import Path

import pytest

from fedsub.service.acts import perform
from fedsub.service.facts import service_lines
from fedsub.service.service_folder import make_service
from fedsub.service.state import ServiceFile, Settings
from fedsub.service.supervisor import ServiceSupervisor
from fedsub.service.tokens import Caller
from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import ConfigError, RunError

from .made_link import Killed, MadeLink, look, made_service

OWNER = Caller("anna", "owner")


def targets(link: MadeLink) -> list[object]:
    return [keys["rounds"] for keys in link.submitted]


def test_a_round_follows_the_other(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "always", each=2)
    for _ in range(3):
        look(link, 3)
        link.end()
    look(link)
    assert targets(link) == [2, 4, 6, 8]
    file = look(link)
    assert [start[2:] for start in file.last_starts(2)] == [(6, 1), (4, 1)]
    (line,) = (line for line in service_lines(file, served=True) if line.startswith("last starts"))
    assert "to round 6 in " in line and "to round 2 in " in line and "tries" not in line


@pytest.mark.parametrize("dies", ["before", "after"])
def test_killed_around_a_submission_it_submits_once(tmp_path: Path, dies: str) -> None:
    link = made_service(tmp_path / "svc", "every night at 2 UTC")
    look(link)
    link.now += 86_400
    link.dies = dies
    with pytest.raises(Killed):
        look(link)
    link.dies = ""
    assert look(link, 3).state.run == 100
    assert targets(link) == [1]
    link.end()
    look(link, 3)
    assert targets(link) == [1] and look(link).state.target == 0


@pytest.mark.parametrize("status", ["finished:failed", "finished:stopped"])
def test_a_run_that_failed_is_submitted_again(tmp_path: Path, status: str) -> None:
    link = made_service(tmp_path / "svc", "every 6 hours")
    look(link)
    for tries in range(1, 4):
        link.end(status, why=f"quorum {tries}")
        state = look(link).state
        assert (state.run, state.target, state.failures) == (0, 1, tries)
        assert f"quorum {tries}" in state.failure and state.next_at > link.now
        link.now = state.next_at
        look(link)
    link.end()
    state = look(link).state
    assert targets(link) == [1, 1, 1, 1] and (state.target, state.failures) == (0, 0)
    assert "quorum 3" in state.failure, "the last failure stays to be seen"


def test_a_superlink_that_lost_its_runs_gets_the_start_again(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "always")
    look(link, 2)
    link.runs.clear()
    state = look(link).state
    assert state.failures == 1 and "does not know" in state.failure
    link.now = state.next_at + 10
    look(link)
    assert targets(link) == [1, 1]


def test_a_superlink_that_is_away_is_waited_for(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "always")
    link.answers = False
    assert "does not answer" in look(link, 5).state.why
    link.answers = True
    look(link)
    link.answers = False
    state = look(link, 5).state
    assert state.run == 100 and state.failures == 0
    link.answers = True
    link.end()
    look(link, 2)
    assert targets(link) == [1, 2]


def test_too_few_devices_start_nothing_and_end_nothing(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "always")
    link.connected = ["p1", "p2"]
    for _ in range(20):
        link.now += 86_400
        assert look(link).state.why == "2 of 3 devices are connected"
    assert not link.submitted
    link.connected.append("p3")
    look(link)
    assert targets(link) == [1]


def test_only_members_are_counted(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "always")
    (tmp_path / "svc" / "run" / "members.txt").write_text("p1\np2\n q3 \n\n")
    assert look(link).state.why == "2 of 3 devices are connected"
    link.connected.append("q3")
    assert look(link).state.run == 100


def test_devices_are_asked_for_new_samples(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "when 3 people have new samples")
    look(link)
    link.end(examples=5)
    assert "0 of 3" in look(link).state.why or targets(link) == [1, 1]
    look(link)
    link.end(examples=5)  # a check: no round
    state = look(link).state
    assert state.target == 0 and state.next_at == pytest.approx(state.checked + 3600)
    link.now = state.next_at
    look(link)
    assert link.submitted[-1]["min-clients"] == 1
    link.end(examples=6)
    look(link)
    assert targets(link) == [1, 1, 1, 2]


def test_a_pause_holds_and_a_stop_repeats(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "always")
    perform(look(link), OWNER, "pause", {})
    link.end()
    assert look(link, 3).state.why == "paused" and targets(link) == [1]
    perform(look(link), OWNER, "resume", {})
    perform(look(link), OWNER, "pause", {"now": True})
    state = look(link, 3).state
    assert link.runs[-1].status == "finished:stopped"
    assert (state.run, state.target, state.failures) == (0, 2, 0)
    perform(look(link), OWNER, "resume", {})
    look(link)
    assert targets(link) == [1, 2, 2]


def test_a_clock_that_was_ahead_holds_nothing_up(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "every hour")
    link.now += 1e8  # three years
    look(link)
    link.end()
    link.now -= 1e8
    state = look(link).state
    assert state.begun < link.now + 1
    link.now += 3601
    look(link)
    assert targets(link) == [1, 2]


def test_a_clock_of_1970_starts_nothing(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "every night at 2 UTC")
    before, link.now = link.now, 10.0
    assert "1970-01-01" in look(link, 3).state.why
    link.now = before
    assert look(link).state.next_at > before and not link.submitted


def test_what_goes_wrong_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = made_service(tmp_path / "svc", "always")
    (link.folder / "run" / "members.txt").write_text("../p1\n")
    looks = 0

    def wait(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:  # no more room for anything
            file.connection.execute("PRAGMA query_only = 1")
        if looks == 6:
            raise Killed

    with ServiceFile(link.folder) as file, pytest.raises(Killed):
        ServiceSupervisor(file, lambda settings: link, lambda: link.now).serve(wait)
    assert caplog.text.count("members.txt") == 1 and not link.submitted
    (link.folder / "run" / "members.txt").unlink()
    assert look(link).state.run == 100


def test_set_keys_reach_the_next_run(tmp_path: Path) -> None:
    link = made_service(tmp_path / "svc", "always")
    look(link)
    perform(look(link), OWNER, "set", {"min-clients": "2", "quorum": "0.75", "each": "5"})
    link.connected.pop()
    link.end()
    look(link)
    keys = link.submitted[-1]
    assert (keys["min-clients"], keys["quorum"], keys["rounds"]) == (2, 0.75, 6)


@pytest.mark.parametrize("method", ["fedsub-gated", "fedclar"])
def test_methods_whose_rounds_depend_on_their_number_are_refused(
    tmp_path: Path, method: str
) -> None:
    config = read_config(None, {"method": method, "beside": ""})
    with refused(ConfigError, method):
        make_service(tmp_path / "svc", config, Settings("always", 1, "127.0.0.1:1", "", {}))
    assert not list(tmp_path.iterdir())


def test_no_service_is_made_in_a_folder_that_holds_something(tmp_path: Path) -> None:
    made_service(tmp_path / "svc", "always")
    with refused(RunError, str(tmp_path / "svc")):
        made_service(tmp_path / "svc", "always")
    with refused(RunError, "service.db"):
        ServiceFile(tmp_path)
