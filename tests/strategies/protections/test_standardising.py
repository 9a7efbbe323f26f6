"""What all standardise by, where the server sees the sum of people's moments alone."""

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Message, MessageType

from fedsub_core.config.halves import ServerSettings
from fedsub_core.data.standardise import Scaling, pool, scaling
from fedsub_core.errors import RunError
from fedsub_core.secure.exact import words_of
from fedsub_core.secure.messages import AGAIN, MOMENTS, SECURE
from strategies.strategy import PersonalizedStrategy

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..lost_replies import lost
from ..tampered_grid import Reply

PLAIN: dict[str, Any] = {"robust": "none", "standardise": "federation", "rounds": 1}
SUMS = PLAIN | {"secure_aggregation": True}


def agreed(run: FinishedRun) -> Scaling:
    found = run.strategy.population.agreed.scaling
    assert found is not None
    return found


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"encoder": "relu:8"},
        {"split": "unseen", "unseen_rounds": 1, "unseen_share": 0.25, "rounds": 2},
    ],
    ids=["samples", "features", "without who is held out"],
)
def test_it_has_the_bits_of_a_plain_run(
    keys: dict[str, Any], people: MakePeople, run_method: RunMethod
) -> None:
    plain, sums = (run_method(people(), "fedavg", **some | keys) for some in (PLAIN, SUMS))
    assert agreed(sums).bits == agreed(plain).bits
    assert (agreed(sums).features is not None) == ("encoder" in keys)
    assert not sums.refusals and sums.metric("secure_people")[1, ""] >= 3
    for one in sums.strategy.population.registry.introductions.values():
        assert not one.moments.sum.any() and not one.moments.sumsq.any()
        assert one.features is None or not one.features.sumsq.any()


@pytest.mark.parametrize("sizes", [1e-30, 1e-12, 1e9])
def test_features_of_any_size_are_standardised(
    sizes: float, people: MakePeople, run_method: RunMethod
) -> None:
    federation = people()
    for one in federation.clients.values():
        one.x[:] *= np.float32(sizes)
    plain, sums = (run_method(federation, "local", **keys) for keys in (PLAIN, SUMS))
    assert agreed(sums).bits == agreed(plain).bits
    assert (agreed(sums).std < 10 * sizes).all()


@pytest.mark.parametrize("phase", ["keys", "shares", MOMENTS, "unmask"])
def test_one_of_four_may_be_silent_in_any_exchange(
    phase: str, people: MakePeople, run_method: RunMethod
) -> None:
    """The others' moments are what all standardise by; not all are needed to open the sum."""
    silent = lost(MessageType.QUERY, "p2", phase=phase, round=0)
    run = run_method(people(), "fedavg", tamper=silent, **SUMS)
    said = run_method(people(), "fedavg", **PLAIN).strategy.population.registry.introductions
    there = [said[c].moments for c in ("p1", "p2", "p3", "p4") if c != "p2" or phase == "unmask"]
    assert agreed(run).bits == scaling(pool(there)).bits
    # Who was silent takes part in the rounds all the same.
    assert run.metric("secure_people") == {(1, ""): 4}
    assert run.metric("missing_replies") == {(1, "p2"): 1}


def test_of_too_few_people_there_is_no_run(people: MakePeople, run_method: RunMethod) -> None:
    gone = lost(MessageType.QUERY, "p1", "p2", phase="keys", round=0)
    with pytest.raises(RunError, match="round 0: secure-aggregation: 2 of 4 people showed keys"):
        run_method(people(), "fedavg", tamper=gone, **SUMS)
    gone = lost(MessageType.QUERY, "p1", "p2", phase="unmask", round=0)
    with pytest.raises(RunError, match=r"standardise by cannot be added up: .* 2 shares of 4"):
        run_method(people(), "fedavg", tamper=gone, **SUMS)


def sending(change: Callable[[bytes], bytes | str], *, client: str, people: int = 4) -> Any:
    """Return a change of the vector of a client's moments, as often as it is sent."""

    def tamper(reply: Reply) -> Message:
        asked = reply.asked.content
        if reply.kind == MessageType.QUERY and SECURE in asked:
            told = dict(asked[SECURE])
            own = f"p{people + 1 - reply.asked.metadata.dst_node_id}"
            if told["phase"] in (MOMENTS, AGAIN) and own == client:
                said = reply.message.content.config_records[SECURE]
                said["vector"] = change(cast(bytes, said["vector"]))
        return reply.message

    return tamper


@pytest.mark.parametrize(
    ("vector", "got"), [(b"short", "5 bytes"), ("text", "str")], ids=["of another length", "text"]
)
def test_what_is_no_vector_is_refused_and_the_others_summed(
    vector: bytes | str,
    got: str,
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = run_method(people(), "fedavg", tamper=sending(lambda _: vector, client="p3"), **SUMS)
    said = run_method(people(), "fedavg", **PLAIN).strategy.population.registry.introductions
    others = [said[client].moments for client in ("p1", "p2", "p4")]
    assert agreed(run).bits == scaling(pool(others)).bits
    assert run.refusals == {"p3": 1}
    # 1 + 2 x 4 numbers of 30 words of 4 bytes.
    assert f"client 'p3', round 0: secure sum: got {got}, expected 1080 bytes" in caplog.text


def less(vector: bytes) -> bytes:
    """Return a vector with less in it of a sum of squares: masks let numbers be added."""
    added = words_of(np.array([0.0] * 5 + [-1e9] + [0.0] * 3))
    return (np.frombuffer(vector, "<u4") + added).astype("<u4").tobytes()


def test_one_of_few_that_sends_what_is_no_sum_ends_the_run_with_what_to_do(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    said = "standardise by: got moments that no samples .*Choose standardise = client or none"
    with pytest.raises(RunError, match=said):
        run_method(people(), "fedavg", tamper=sending(less, client="p3"), **SUMS)
    assert "of 4: squares that sum to less" in caplog.text


def test_one_of_more_that_sends_what_is_no_sum_costs_its_group(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    seven = people(((0, 1, 2),) * 7)
    run = run_method(seven, "fedavg", tamper=sending(less, client="p3", people=7), **SUMS)
    said = run_method(seven, "fedavg", **PLAIN).strategy.population.registry.introductions
    (left,) = re.findall("left out: (.*): squares that", caplog.text)
    assert "p3" in left
    others = [own.moments for client, own in said.items() if client not in left]
    assert len(others) in (3, 4) and agreed(run).bits == scaling(pool(others)).bits
    assert run.metric("secure_people") == {(1, ""): 7}


def test_samples_that_are_no_numbers_are_in_no_sum(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """A file of a later day may hold them: a vector of them would spoil everybody's."""
    from fedsub_client.scaled_data import ScaledData

    own = ScaledData.shared_moments

    def spoilt(self: ScaledData, i: int, part: str) -> Any:
        found = own(self, i, part)
        if found is not None and self.clients[i].client == "p1":
            found.sum[0] = np.nan
        return found

    monkeypatch.setattr(ScaledData, "shared_moments", spoilt)
    run = run_method(people(), "fedavg", **SUMS)
    assert np.isfinite(agreed(run).mean).all() and run.refusals == {"p1": 1}
    assert "client 'p1', round 0: secure sum: moments of samples: got" in caplog.text


def test_what_another_method_of_the_run_learnt_is_asked_for_once(
    people: MakePeople, run_method: RunMethod
) -> None:
    """A second sum, over other people, would tell of those who are in one alone."""
    first = run_method(people(), "fedavg", **SUMS)
    asked: list[str] = []

    def listen(reply: Reply) -> Message:
        if reply.kind == MessageType.QUERY and SECURE in reply.asked.content:
            asked.append(str(dict(reply.asked.content[SECURE]).get("of", "")))
        return reply.message

    def told(settings: ServerSettings) -> PersonalizedStrategy:
        strategy = PersonalizedStrategy(settings)
        strategy.outset.scaling = agreed(first)
        return strategy

    again = run_method(people(), "fedavg", tamper=listen, strategy=told, **SUMS)
    assert agreed(again).bits == agreed(first).bits and asked and not any(asked)
    # What the first did not need is asked for, and that alone.
    more = run_method(people(), "fedavg", tamper=listen, strategy=told, encoder="relu:8", **SUMS)
    assert [one for one in asked if one] == ["features"] * 4
    assert (agreed(more).mean == agreed(first).mean).all() and agreed(more).features is not None
