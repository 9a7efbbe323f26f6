"""Replies that come after their round had ended, or twice."""

from collections.abc import Iterable
from typing import Any

import pytest
from flwr.app import Message

from strategies.rounds.link import Link

from .scripted_link import NODES, POLL, Serve, message

SILENT = {"silent": True}
LOST = (3, 4, 5, 8)


def fate(after: float = 0.0, error: int | None = None) -> dict[str, Any]:
    return {"after": after, "error": error}


def test_a_late_reply_is_counted_and_does_not_pass_for_the_next_rounds(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve({12: [fate(11.0), fate(3.0)]})
    assert ("ben", "ben 1") not in server.ask(timeout=10.0)
    assert server.counts() == {"missing_replies": {"ben": 1}}
    # The late one is there first; only the one to the second message is ben's answer.
    assert ("ben", "ben 2") in server.ask(timeout=10.0, round=2)
    assert server.link.seconds == 13.0
    assert server.counts() == {"late_replies": {"ben": 1}}
    assert "client ben: a reply came after its round had ended; not used" in caplog.text


def test_who_answers_in_time_while_others_answers_are_read_is_not_silent(serve: Serve) -> None:
    """Reading anna's takes 20 s; ben's came after 5, within the 10 that there were."""
    server, heard = serve({12: [fate(5.0)], 13: [SILENT]}), []
    asked = [(client, message(client, 1)) for client in NODES]
    for reply in server.delivery.exchange(Link(server.link), asked, 10.0, NODES):
        heard.append(server.delivery.client_of(reply))
        server.link.clock.wait(20.0 if heard == ["anna"] else 0.0)
    assert heard == ["anna", "ben"] and server.delivery.silent == {"cleo"}
    assert server.link.seconds == 20.0


def test_what_the_server_does_meanwhile_is_no_clients_time(serve: Serve) -> None:
    """Reading each answer takes 30 s; cleo alone is waited for that long."""
    server = serve({12: [fate(5.0)], 13: [fate(95.0)]})
    asked = [(client, message(client, 1)) for client in NODES]
    for reply in server.delivery.exchange(Link(server.link), asked, 600.0, NODES, most=2):
        server.delivery.note_usable(server.delivery.client_of(reply))
        server.link.clock.wait(30.0)
    assert server.delivery.pace.took["anna"] == 0 and server.delivery.pace.took["ben"] <= POLL
    assert server.delivery.pace.slow == {"cleo"}
    assert server.counts() == {"slow_replies": {"cleo": 1}}


def test_a_very_late_reply_is_counted_whenever_it_comes(serve: Serve) -> None:
    server = serve({12: [fate(25.0)], 13: [SILENT]})
    for round, late in ((1, {}), (2, {}), (3, {"ben": 1}), (4, {})):
        server.ask(*(["anna", "cleo"] if round > 1 else []), timeout=10.0, round=round)
        assert server.counts().get("late_replies", {}) == late
    assert server.delivery.client_of(server.link.sent[0][2]) == "?"


@pytest.mark.parametrize("code", [*LOST, 2])
def test_a_late_error_is_no_late_reply(serve: Serve, code: int) -> None:
    server = serve({12: [fate(11.0, code), fate(3.0)]})
    server.ask(timeout=10.0)
    server.counts()
    assert ("ben", "ben 2") in server.ask(timeout=10.0, round=2)
    assert server.counts() == {} and len(server.link.times("ben")) == 2


def test_a_reply_to_a_message_that_was_sent_again_can_be_late_too(serve: Serve) -> None:
    server = serve({12: [fate(1.0, 5), fate(20.0), fate(15.0)]})
    server.ask("ben", timeout=10.0)
    assert server.counts() == {"messages_resent": {"ben": 1}, "missing_replies": {"ben": 1}}
    assert server.ask("ben", timeout=20.0, round=2) == [("ben", "ben 2")]
    assert server.counts() == {"late_replies": {"ben": 1}}


def test_a_reply_that_comes_twice_is_used_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    once = server.link.pull_messages

    def twice(message_ids: Iterable[str]) -> list[Message]:
        return [reply for reply in once(message_ids) for _ in range(2)]

    monkeypatch.setattr(server.link, "pull_messages", twice)
    assert len(server.ask()) == 3
    assert server.counts() == {}


def test_nobody_asked_is_over_at_once(serve: Serve) -> None:
    server = serve()
    assert list(server.delivery.exchange(Link(server.link), [], 600.0, {})) == []
    assert server.link.seconds == 0.0 and server.link.sent == []


def test_who_has_not_been_asked_for_long_may_look_late(serve: Serve) -> None:
    """By half of the time since it answered, or since the first exchange, after the handshake."""
    server = serve()
    server.ask(most=2)
    assert set(server.delivery.pace.late.values()) == {0.0}
    server.link.clock.wait(40.0)
    server.ask("anna", most=1, round=2)
    server.ask(most=2, round=3)
    assert server.delivery.pace.late == {"anna": 0.0, "ben": 17.0, "cleo": 17.0}
