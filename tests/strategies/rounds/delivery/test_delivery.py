"""Messages that arrive, that get lost, and nodes that are away: who is heard, who is missing."""

import time
from itertools import pairwise
from typing import Any

import pytest
from flwr.app import MessageType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies.rounds.delivery import LEAST_SECONDS, PRESENCE_SECONDS, REACTIVATED_SECONDS
from strategies.rounds.outbox import CRASHES, LOSSES

from .scripted_link import Serve

# By default the nodes reply at once.
CLIENTS = {11: "anna", 12: "ben", 13: "cleo"}
SILENT, REFUSED = {"silent": True}, {"taken": False}
LOST = {3: "message unavailable", 4: "reply unavailable", 5: "node unavailable", 8: "crashed"}


def fate(after: float = 0.0, error: int | None = None) -> dict[str, Any]:
    return {"after": after, "error": error}


def test_replies_come_as_they_come_and_the_last_ends_it(serve: Serve) -> None:
    server = serve({11: [fate(2.0)], 12: [fate(0.6)]})
    assert server.ask(timeout=600) == [("cleo", "cleo 1"), ("ben", "ben 1"), ("anna", "anna 1")]
    assert server.link.seconds == 2.0 and server.link.looks == [PRESENCE_SECONDS]
    assert server.counts() == {}


def test_who_is_silent_is_missing_at_the_deadline(serve: Serve) -> None:
    server = serve({12: [SILENT], 13: [fate(10.1)]})
    assert server.ask(timeout=10.0) == [("anna", "anna 1")]
    assert server.link.seconds == 10.0
    assert server.counts() == {"missing_replies": {"ben": 1, "cleo": 1}}
    assert server.counts() == {}


def test_a_reply_of_the_last_moment_counts(serve: Serve) -> None:
    assert serve({11: [fate(9.99)]}).ask("anna", timeout=10.0) == [("anna", "anna 1")]


@pytest.mark.parametrize("code", LOST)
def test_a_lost_message_is_sent_again(
    serve: Serve, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve({12: [fate(3.0, code), fate(0.5, code), fate(1.0)]})
    answers = server.ask(timeout=20.0)
    assert answers[-1] == ("ben", "ben 1") and len(answers) == 3
    assert server.counts() == {"messages_resent": {"ben": 2}}
    assert caplog.text.count(f"client ben: {LOST[code]}") == 2
    assert (
        server.link.times("anna") == server.link.times("cleo") == [0.0]
        and len(server.link.times("ben")) == 3
    )
    copies = [message for _, node, message in server.link.sent if node == 12]
    assert len({m.metadata.message_id for m in copies}) == 3
    for message in copies:
        assert message.content.config_records["to"]["client"] == "ben"
        kept = (message.metadata.message_type, message.metadata.ttl, message.metadata.group_id)
        assert kept == (MessageType.TRAIN, 77.0, "1")
    # The link measures a message's life from its making: a copy has all of it.
    assert copies[2].metadata.created_at > copies[0].metadata.created_at


@pytest.mark.parametrize("code", [0, 1, 2, 6, 7])
def test_what_the_device_itself_says_is_passed_on_at_once(serve: Serve, code: int) -> None:
    server = serve({12: [fate(0.0, code)]})
    assert server.ask()[1] == ("ben", f"error {code}")
    assert server.link.seconds == 0.0 and len(server.link.sent) == 3
    assert server.counts() == {}


@pytest.mark.parametrize("code", [3, 4, 5])
def test_a_node_that_keeps_failing_is_not_hammered(serve: Serve, code: int) -> None:
    server = serve({12: [fate(0.0, code)]}, poll=0.01)
    assert server.ask(timeout=10.0) == [("anna", "anna 1"), ("cleo", "cleo 1")]
    times = server.link.times("ben")
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= PRESENCE_SECONDS and 9 <= len(times) <= 10
    assert max(times) < 10.0 and server.link.seconds == pytest.approx(10.0)
    assert server.counts() == {
        "messages_resent": {"ben": len(times) - 1},
        "missing_replies": {"ben": 1},
    }


def test_an_app_that_always_crashes_is_given_up(serve: Serve) -> None:
    server = serve({12: [fate(0.0, 8)]}, poll=0.01)
    assert ("ben", "error 8") in server.ask(timeout=10.0)
    assert len(server.link.times("ben")) == 1 + CRASHES and server.link.seconds < 4.0
    assert server.counts() == {"messages_resent": {"ben": CRASHES}}


@pytest.mark.parametrize("code", [3, 4, 5])
def test_a_message_that_is_lost_after_crashes_is_sent_again_too(serve: Serve, code: int) -> None:
    server = serve({12: [*[fate(0.0, 8)] * CRASHES, fate(0.0, code), fate(0.5)]})
    assert ("ben", "ben 1") in server.ask(timeout=30.0)
    assert server.counts() == {"messages_resent": {"ben": CRASHES + 1}}


@pytest.mark.parametrize("code", [3, 4, 5])
def test_who_says_that_its_messages_are_lost_is_given_up_too(serve: Serve, code: int) -> None:
    server = serve({12: [fate(0.0, code)]}, poll=0.01)
    assert ("ben", f"error {code}") in server.ask(timeout=600.0)
    assert server.link.seconds <= (LOSSES + 1) * (PRESENCE_SECONDS + 0.25)
    assert server.counts() == {"messages_resent": {"ben": LOSSES}}


def test_a_second_exchange_waits_for_who_was_slow_only_if_the_reply_could_be_used(
    serve: Serve,
) -> None:
    server = serve({11: [fate(40.0)], 12: [SILENT], 13: [fate(89.0)]})
    assert server.ask(timeout=90.0) == [("anna", "anna 1"), ("cleo", "cleo 1")]
    assert server.delivery.time_left(90.0) == LEAST_SECONDS
    server.delivery.note_usable("anna")
    assert server.delivery.time_left(90.0) == pytest.approx(80.0, abs=1.0)


def test_a_message_to_a_node_that_is_offline_is_there_when_the_node_is_back(serve: Serve) -> None:
    server = serve({12: [fate(2.0, 5), fate(1.0)]}, away={12: (1.0, 30.0)})
    assert ("ben", "ben 1") in server.ask(timeout=60.0)
    first, second = server.link.times("ben")
    assert first == 0.0 and 2.0 <= second < 2.0 + PRESENCE_SECONDS + 0.25
    assert server.link.seconds <= 30.0 + 1.0 + PRESENCE_SECONDS + 0.25
    assert min(b - a for a, b in pairwise(server.link.looks)) >= PRESENCE_SECONDS
    assert server.counts() == {"messages_resent": {"ben": 1}}


@pytest.mark.parametrize("back", [20.0, 0.7])
def test_a_node_that_was_let_in_anew_is_asked_again(serve: Serve, back: float) -> None:
    """Its message went with it, and nobody says so."""
    server = serve({12: [SILENT, fate(0.5)]}, restless={12: back})
    assert server.ask(timeout=600.0, looked=True)[-1] == ("ben", "ben 1")
    first, second = server.link.times("ben")
    assert first == 0.0 and back <= second <= back + REACTIVATED_SECONDS
    assert server.link.seconds <= second + 1.0 + 0.25
    assert server.counts() == {"messages_resent": {"ben": 1}}


@pytest.mark.parametrize("error", [None, *LOST])
@pytest.mark.parametrize("after", [25.0, 40.0])
def test_of_two_replies_to_a_node_that_was_asked_again_one_counts(
    serve: Serve, after: float, error: int | None
) -> None:
    """The first message was not lost, or its loss is said late."""
    server = serve({12: [fate(after, error), fate(8.0)]}, restless={12: 18.0})
    answers = server.ask(timeout=600.0)
    assert sorted(answers) == [("anna", "anna 1"), ("ben", "ben 1"), ("cleo", "cleo 1")]
    assert len(server.link.times("ben")) == 2


def test_the_loss_of_the_second_message_is_not_put_up_with(serve: Serve) -> None:
    """The first went unsaid; the app crashes on the second."""
    server = serve({12: [SILENT, fate(2.0, 8), fate(1.0)]}, restless={12: 20.0})
    assert server.ask(timeout=39.0)[-1] == ("ben", "ben 1")
    assert len(server.link.times("ben")) == 3


def test_a_lost_message_that_was_sent_to_a_node_let_in_anew_is_not_sent_once_more(
    serve: Serve,
) -> None:
    server = serve({12: [fate(25.0, 5), fate(20.0)]}, away={12: (5, 24.0)}, restless={12: 24.0})
    assert server.ask(timeout=600.0)[-1] == ("ben", "ben 1")
    assert server.counts() == {"messages_resent": {"ben": 1}}


def test_a_node_that_is_let_in_over_and_over_is_given_up(serve: Serve) -> None:
    server = serve({12: [SILENT]}, restless={12: 5.0})
    assert len(server.ask(timeout=600.0)) == 2
    assert len(server.link.times("ben")) == 1 + LOSSES
    assert server.counts()["missing_replies"] == {"ben": 1}


def test_who_stays_away_is_missing_once(serve: Serve) -> None:
    server = serve({12: [fate(2.0, 5)]}, away={12: (1.0, 99.0)})
    assert len(server.ask(timeout=10.0)) == 2
    assert len(server.link.times("ben")) == 2 and server.link.seconds == 10.0
    assert server.counts() == {"messages_resent": {"ben": 1}, "missing_replies": {"ben": 1}}


@pytest.mark.parametrize("lost", [True, False])
def test_who_is_registered_no_more_is_not_waited_for(
    serve: Serve, lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The link takes no message to it, before or after it has lost the first."""
    server = serve({12: [fate(2.0, 5), REFUSED] if lost else [REFUSED]}, away={12: (0.0, 999.0)})
    assert len(server.ask(timeout=600.0)) == 2
    assert server.link.seconds < 2.0 + PRESENCE_SECONDS + 0.5
    assert server.delivery.unregistered == server.delivery.silent == {"ben"}
    assert server.counts() == {"missing_replies": {"ben": 1}}
    assert caplog.text.count("client ben: its node is registered no more") == 1
    assert len(server.ask("anna", "cleo")) == 2 and server.delivery.unregistered == set()


@pytest.mark.parametrize(
    ("silent", "most", "waited"),
    [
        ([12], 2, 20.0),  # so long as Flower takes to see that it is offline
        ([12, 13], 2, 600.0),  # without a quorum they are waited for
        ([12], 0, 600.0),  # as are all where nobody sets a pace
    ],
)
def test_who_is_offline_is_waited_for_no_longer_than_the_others_take(
    serve: Serve, silent: list[int], most: int, waited: float
) -> None:
    script = {node: [fate(20.0, 5), SILENT] for node in silent}
    server = serve(script, away=dict.fromkeys(silent, (19.0, 999.0)))
    server.ask(timeout=600.0, most=most, quorum=0.6)
    assert waited <= server.link.seconds <= waited + PRESENCE_SECONDS + 0.5
    assert server.counts()["missing_replies"] == {CLIENTS[node]: 1 for node in silent}


def test_of_two_the_one_that_is_there_sets_the_pace_for_the_one_that_is_offline(
    serve: Serve,
) -> None:
    server = serve({11: [fate(10.0)], 12: [fate(20.0, 5), fate(1.0)]}, away={12: (19.0, 38.0)})
    assert server.ask("anna", "ben", timeout=600.0, most=2, quorum=0.5)[-1] == ("ben", "ben 1")
    server = serve({11: [fate(10.0)], 12: [fate(20.0, 5), fate(1.0)]}, away={12: (19.0, 99.0)})
    assert server.ask("anna", "ben", timeout=600.0, most=2, quorum=0.5) == [("anna", "anna 1")]
    assert 40.0 <= server.link.seconds <= 40.5


def test_whose_own_pace_is_known_is_not_waited_for_much_longer(serve: Serve) -> None:
    """Cleo takes three times as long as most, then says nothing, then is late, then slower."""
    server = serve({13: [fate(30.0), SILENT, fate(70.0), fate(90.0)], 11: [fate(10.0)]})
    server.link.script[12] = server.link.script[11]
    seconds = []
    for round in (1, 2, 3, 4):
        since = server.link.seconds
        answers = server.ask(timeout=600.0, most=2, round=round)
        seconds.append((server.link.seconds - since, ("cleo", f"cleo {round}") in answers))
        if round == 3:
            server.link.clock.wait(30.0)
    assert seconds == [
        (30.0, True),
        (pytest.approx(60.0, abs=0.5), False),
        (pytest.approx(60.0, abs=0.5), False),
        (pytest.approx(90.0, abs=0.5), True),
    ]
    assert server.counts()["late_replies"] == {"cleo": 1}


@pytest.mark.parametrize(("no_id", "shorter"), [(None, False), ("", False), ("", True)])
def test_a_message_that_the_link_did_not_take_is_sent_again_while_the_node_is_there(
    serve: Serve, no_id: str | None, shorter: bool
) -> None:
    script = {11: [REFUSED, REFUSED, fate(1.0)], 12: [fate(5.0)]}
    server = serve(script, no_id=no_id, shorter=shorter)
    answers = server.ask(timeout=60.0)
    # Each under its own name, though Flower's simulation leaves out what it did not take.
    assert sorted(answers) == [("anna", "anna 1"), ("ben", "ben 1"), ("cleo", "cleo 1")]
    first, _, third = server.link.times("anna")
    assert first == 0.0 and 2 * PRESENCE_SECONDS <= third < 2 * (PRESENCE_SECONDS + 0.25)
    # It was never on its way before, so nothing was sent again.
    assert server.counts() == {}


def test_a_link_that_takes_nothing_is_asked_once_a_second(serve: Serve) -> None:
    server = serve({node: [REFUSED] for node in CLIENTS}, shorter=True, poll=0.01)
    assert server.ask(timeout=5.0) == []
    assert all(len(server.link.times(client)) == 5 for client in CLIENTS.values())
    assert server.counts() == {"missing_replies": {"anna": 1, "ben": 1, "cleo": 1}}


@pytest.mark.parametrize("poll", [0.01, 30.0])
def test_it_keeps_its_deadline_on_a_real_clock(serve: Serve, poll: float) -> None:
    server = serve({12: [SILENT]}, poll, real_time=True)
    since = time.monotonic()
    assert len(server.ask(timeout=0.05)) == 2
    assert 0.05 <= time.monotonic() - since < 1.0


fates = st.fixed_dictionaries(
    {
        "after": st.floats(0, 8),
        "error": st.sampled_from([None, None, 2, 3, 4, 5, 8]),
        "silent": st.booleans(),
        "taken": st.sampled_from([True, True, False]),
    }
)
scripts = st.dictionaries(st.sampled_from(list(CLIENTS)), st.lists(fates, min_size=1))
absences = st.dictionaries(
    st.sampled_from(list(CLIENTS)), st.tuples(st.floats(0, 9), st.floats(0, 9))
)


@given(scripts, absences, st.booleans(), st.floats(0.5, 6))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it makes a server each time
)
def test_whatever_happens_everybody_is_heard_or_missing(
    serve: Serve, script: Any, away: dict[int, tuple[float, float]], shorter: bool, wait: float
) -> None:
    server = serve(script, 0.1, away=away, shorter=shorter, no_id=None)
    link = server.link
    for round in (1, 2):
        start, before = link.seconds, len(link.sent)
        answers, counted = server.ask(timeout=wait, round=round), server.counts()
        clients = [client for client, _ in answers]
        missing = counted.get("missing_replies", {})
        assert sorted([*clients, *missing]) == sorted(CLIENTS.values())
        assert set(missing.values()) <= {1}
        # Nobody's answer is another's or another round's.
        told = (f"{{}} {round}", "error 2", "error 8")
        own = {(client, said.format(client)) for client in clients for said in told}
        assert set(answers) <= own
        assert link.seconds - start <= wait + 1e-6
        for node, client in CLIENTS.items():
            times = [s for s, n, _ in link.sent[before:] if n == node]
            assert len(times) <= 1 + wait / PRESENCE_SECONDS and max(times) < start + wait
            assert counted.get("messages_resent", {}).get(client, 0) <= len(times) - 1
            gone = away.get(node, (0, 0))
            # The link keeps one message to a node that is offline.
            assert sum(gone[0] <= seconds < gone[1] for seconds in times[1:]) <= 1
