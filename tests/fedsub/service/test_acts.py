"""Acts: who may do what until when; what is refused changes nothing but the audit log."""

import sqlite3
from pathlib import Path

import pytest

from fedsub.service.acts import perform
from fedsub.service.audit import acts_of
from fedsub.service.facts import lock_folder, service_status
from fedsub.service.state import STATE_FILE, ServiceFile
from fedsub.service.tokens import ActRefused, Caller
from fedsub.status.answers import anonymised
from fedsub.status.facts import Verdict
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, FedSubError, RunError

from .made_link import look, made_service

OWNER = Caller("anna", "owner")


@pytest.fixture
def file(tmp_path: Path) -> ServiceFile:
    made_service(tmp_path / "svc", "every night at 2 Europe/Berlin")
    return ServiceFile(tmp_path / "svc")


def token(file: ServiceFile, role: str) -> str:
    return perform(file, OWNER, "token", {"name": f"a-{role}", "role": role, "days": 1})


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("reader", {"read"}),
        ("operator", {"read", "pause", "set"}),
        ("owner", {"read", "pause", "set", "set identity", "revoke"}),
    ],
)
def test_each_role_may_do_its_own(file: ServiceFile, role: str, may: set[str]) -> None:
    acts = {
        "read": {},
        "pause": {},
        "set": {"each": "2"},
        "set identity": {"identity": "open"},
        "revoke": {"name": f"a-{role}"},
    }
    code, done = token(file, role), set()
    for act, arguments in acts.items():
        before = file.settings, file.state
        try:
            perform(file, code, act.split()[0], arguments)
            done.add(act)
        except ActRefused as error:
            assert error.status == 403 and error.who == f"a-{role}"
            assert (file.settings, file.state) == before
    assert done == may
    outcomes = [(act.who, act.act, act.outcome.split(":")[0]) for act in acts_of(file)[0][1:]]
    assert len(outcomes) == len(acts) - 1, "looking alone leaves no line"
    assert outcomes.count((f"a-{role}", "pause", "done")) == ("pause" in may)


def test_a_token_that_ended_is_refused_by_name(file: ServiceFile) -> None:
    code = token(file, "owner")
    file.connection.execute("update tokens set until = '2026-01-01T00:00:00Z'")
    before = file.settings, file.state
    with refused(ActRefused, "pause", got=["a-owner", "2026-01-01T00:00:00Z"]):
        perform(file, code, "pause", {})
    assert (file.settings, file.state) == before
    last = acts_of(file)[0][-1]
    assert (last.who, last.act) == ("a-owner", "pause") and "ended" in last.outcome


@pytest.mark.parametrize("code", ["", "!", "7XK2-7XK2-7XK2-7XK2-7XK2", "\x00" * 20, "Ä" * 20])
def test_what_is_no_token_is_refused_and_not_repeated(file: ServiceFile, code: str) -> None:
    with refused(ActRefused, "resume"):
        perform(file, code, "resume", {})
    last = acts_of(file)[0][-1]
    assert last.who == "(unknown)" and (not code or code not in str(last))


def test_codes_are_hashed_at_rest(file: ServiceFile, tmp_path: Path) -> None:
    code = token(file, "reader")
    content = (tmp_path / "svc" / STATE_FILE).read_bytes()
    assert code.encode() not in content and code.replace("-", "").encode() not in content
    assert (tmp_path / "svc" / STATE_FILE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("act", "arguments", "named"),
    [
        ("set", {"when": "every night at 25 UTC"}, "25"),
        ("set", {"rounds": "5"}, "rounds"),
        ("set", {"lr": "0.1"}, "lr"),
        ("set", {"quorum": "7"}, "quorum"),
        ("set", {"each": "0"}, "each"),
        ("set", {"each": "5", "min-clients": "none"}, "min-clients"),
        ("set", {}, "when"),
        ("pause", {"for": "ever"}, "for"),
        ("token", {"name": "b", "role": "god", "days": 1}, "god"),
        ("token", {"name": "b", "role": "reader", "days": 0}, "days"),
        ("token", {"name": "b", "role": "reader", "days": 1e9}, "days"),
        ("token", {"name": "b\n", "role": "reader", "days": 1}, "name"),
        ("revoke", {"name": "nobody"}, "nobody"),
        ("forget", {}, "forget"),
    ],
)
def test_what_cannot_be_used_is_refused_and_changes_nothing(
    file: ServiceFile, act: str, arguments: dict[str, object], named: str
) -> None:
    before = file.settings, file.state
    with refused(FedSubError, named):
        perform(file, OWNER, act, arguments)
    assert (file.settings, file.state) == before
    acts, broken = acts_of(file)
    assert len(acts) == 1 and acts[0].outcome.startswith("refused") and broken is None


def test_two_tokens_have_two_names(file: ServiceFile) -> None:
    token(file, "reader")
    with refused(ConfigError, "a-reader"):
        token(file, "reader")


def test_lines_of_the_log_are_only_added(file: ServiceFile) -> None:
    for act in ("pause", "resume", "pause"):
        perform(file, OWNER, act, {})
    for change in ("update acts set who = 'ben'", "delete from acts where number = 2"):
        with pytest.raises(sqlite3.IntegrityError):
            file.connection.execute(change)
    assert acts_of(file)[1] is None
    file.connection.execute("drop trigger acts_stay")
    file.connection.execute("update acts set who = 'ben' where number = 2")
    assert acts_of(file)[1] == 2


def test_the_status_says_what_is_next_and_what_failed(file: ServiceFile, tmp_path: Path) -> None:
    link = made_service(tmp_path / "other", "every 6 hours")
    held = lock_folder(link.folder)
    with refused(RunError, "another"):
        lock_folder(link.folder)
    look(link)
    link.end("finished:failed", why="2 of 3 sent what could be used")
    look(link)
    status = service_status(link.folder)
    assert (status.kind, status.state, status.verdict) == ("service", "waiting", Verdict.TROUBLE)
    assert [line.split(":")[0] for line in status.service] == [
        "schedule", "next round", "waits", "last starts", "last failure",
    ]  # fmt: skip
    assert "2 of 3 sent" in status.service[-1]
    assert "2 of 3 sent" not in repr(anonymised(status)), "reasons may name people"
    perform(ServiceFile(link.folder), OWNER, "pause", {})
    assert service_status(link.folder).state == "paused"
    held.close()
    assert service_status(link.folder).verdict is Verdict.STOPPED


def test_a_round_that_is_over_is_not_standardised_anew(file: ServiceFile) -> None:
    """Three rounds are to be finished by the start that goes on; the round set is the fourth."""
    perform(file, OWNER, "set", {"standardise-anew": "4"})
    file.begin_start(1e9, 3, checks=False)
    for round in ("0", "4", "0"):
        perform(file, OWNER, "set", {"standardise-anew": round})
    with refused(ConfigError, "standardise-anew", got="round 3", expected="a round after 3"):
        perform(file, OWNER, "set", {"standardise-anew": "3"})
    perform(file, OWNER, "set", {"standardise-anew": "4"})
    file.put(target=7)
    perform(file, OWNER, "set", {"standardise-anew": "4", "quorum": "0.5"})  # as it was
