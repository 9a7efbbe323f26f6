"""fedsub-ridge whose server learns sums alone: those of plain runs, and nobody's twice."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from torch import Tensor

from fedsub_core.errors import RunError
from fedsub_core.secure.messages import AGAIN, SECURE
from strategies.methods.fedsub_ridge.questions import SPENT
from strategies.methods.fedsub_ridge.strategy import FedSubRidgeServer
from strategies.methods.fedsub_ridge.summed import SummedRidgeServer

from ...finished_run import FinishedRun, MakePeople, RunMethod
from ...lost_replies import lost
from ...tampered_grid import Reply, Tamper

NAME = "fedsub-ridge"
PLAIN: dict[str, Any] = dict(robust="none", standardise="client", encoder="relu:8", rounds=4)
SUMS = PLAIN | {"secure_aggregation": True}
#: Rounds of the first three sums.
CLASSES, STATISTICS, EQUATIONS = 1, 2, 3
GRAM, CROSS = "everybody.gram", "everybody.cross"
ALL = (0, 1, 2)


def assert_same_sums(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    for name in (GRAM, CROSS):
        assert torch.equal(ours[name], theirs[name])


def heads(run: FinishedRun) -> dict[str, Tensor]:
    return {
        f"{client} {name}": tensor
        for client, state in run.client_states().items()
        for name, tensor in state.items()
        if name.startswith("model.")
    }


def assert_same_heads(ours: FinishedRun, theirs: FinishedRun, atol: float) -> None:
    found, expected = heads(ours), heads(theirs)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=atol, rtol=0)


def inside(run: FinishedRun, round: int = -1) -> dict[str, int]:
    """Return in which round's sum of statistics people were, as the state after a round says."""
    state = run.states[round]
    return {k.partition("/")[2]: int(t[1]) for k, t in state.items() if k.startswith("member/")}


def together(*those: Tamper) -> Tamper:
    def tamper(reply: Reply) -> Message | None:
        for one in those:
            if one(reply) is None:
                return None
        return reply.message

    return tamper


def wrong(client: str, round: int, at: int, people: int = 4) -> Tamper:
    """Return a change of a number of a client's vector, also where that is asked for again."""

    def spoilt(data: bytes) -> bytes:
        values = np.frombuffer(data, "<u4").copy()
        values[[at]] -= np.uint32(2**30)
        return values.tobytes()

    def tamper(reply: Reply) -> Message:
        if (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, client, round):
            bundle = reply.bundle().message
            bundle.tensors[0].values = spoilt(bundle.tensors[0].values)
            return reply.with_bundle(bundle)
        asked, node = reply.asked.content, reply.asked.metadata.dst_node_id
        if (
            SECURE in asked
            and asked[SECURE]["phase"] == AGAIN
            and f"p{people + 1 - node}" == client
        ):
            record = reply.message.content.config_records[SECURE]
            record["vector"] = spoilt(cast(bytes, record["vector"]))
        return reply.message

    return tamper


@pytest.mark.parametrize("most", [3.0, 1.0])
@pytest.mark.parametrize(("prior", "tolerance"), [(0.0, 0.0), (30.0, 1e-4)])
def test_sums_are_the_bits_of_plain_ones(
    prior: float, tolerance: float, most: float, people: MakePeople, run_method: RunMethod
) -> None:
    """And so are heads; others' equations, which are rounded, move weights of 17 by 2e-5."""
    hyper = {"prior": prior}
    plain, sums = (
        run_method(people(), NAME, hyper=hyper, most_examples=most, **keys)
        for keys in (PLAIN, SUMS)
    )
    assert_same_sums(sums.states[-1], plain.states[-1])
    torch.testing.assert_close(
        sums.states[-1]["pooled"], plain.states[-1]["pooled"], atol=1e-6, rtol=0
    )
    assert_same_heads(sums, plain, tolerance)
    assert sums.metric("secure_people") == {(round, ""): 4 for round in (1, 2, 3)}
    assert inside(sums) == dict.fromkeys(("p1", "p2", "p3", "p4"), STATISTICS)
    assert not sums.refusals


def test_after_that_nothing_but_envelopes_travels(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), NAME, **SUMS | {"rounds": 6})
    for round in (5, 6):
        assert not run.metric("bytes_secure_sent").keys() & {(round, f"p{i}") for i in range(1, 5)}
        for metric in ("bytes_up_sent", "bytes_down_sent"):
            sent = [n for (r, _), n in run.metric(metric).items() if r == round]
            assert len(sent) == 4 and max(sent) < 40


def test_of_nobody_the_server_hears_a_name_of_samples(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Plain uploads carry a hash of them: a guess of all samples could be tested with it."""
    plain, sums = (run_method(people(), NAME, **keys) for keys in (PLAIN, SUMS))
    assert all(one.message.version for one in plain.grid.uploads.values())
    ours = {0, *(one.message.version for one in sums.grid.downloads.values())}
    assert {one.message.version for one in sums.grid.uploads.values()} <= ours
    names = {one.message.version for one in plain.grid.uploads.values()}
    assert not names & ours


def test_who_falls_silent_is_left_out_and_not_asked_alone(
    people: MakePeople, run_method: RunMethod
) -> None:
    """A second sum with it, of the others as well, would be the first and its own."""
    gone = lost(MessageType.TRAIN, "p2", round=STATISTICS)
    run = run_method(people(), NAME, tamper=gone, **SUMS | {"rounds": 6})
    three = people()
    del three.clients["p2"]
    plain = run_method(three, NAME, **PLAIN)
    assert_same_sums(run.states[-1], plain.states[-1])
    assert inside(run) == {"p1": 2, "p2": 0, "p3": 2, "p4": 2}
    assert run.metric("secure_people") == {(1, ""): 4, (2, ""): 3, (3, ""): 4}
    # It mixes heads on others' sums and its own samples, as who comes late does.
    own = run.client_states()["client/p2"]
    assert not torch.equal(own["model.linear1.weight"], own["alone.linear1.weight"])


def test_a_class_of_too_few_people_is_in_no_sum(people: MakePeople, run_method: RunMethod) -> None:
    classes = (ALL, (0, 1), (0, 1, 2), (0, 1))
    run = run_method(people(classes), NAME, **SUMS)
    cross = run.states[-1][CROSS]
    assert cross[:2, 0].all() and not cross[2].any()
    # Others' sums are those of a federation in which nobody has it, and own heads know it.
    plain = run_method(people(((0, 1),) * 4), NAME, **PLAIN)
    assert torch.equal(cross[:2, 0], plain.states[-1][CROSS][:2, 0])
    weight = run.client_states()["client/p1"]["model.linear1.weight"]
    assert weight[2].abs().max() > 0.1 * weight.abs().max()
    f1 = {c: value for (r, c), value in run.metric("macro_f1").items() if r == 4}
    assert f1["p1"] > 0.5 and f1["p3"] > 0.5


def test_a_class_that_may_be_of_too_few_is_not_opened(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    """Three have it, one of four falls silent: nobody knows whether two are left."""
    classes = (ALL, (0, 1), ALL, ALL)
    gone = lost(MessageType.TRAIN, "p2", round=STATISTICS)
    run = run_method(people(classes), NAME, tamper=gone, **SUMS | {"rounds": 5})
    assert run.metric("secure_lost") == {(2, ""): 1}
    assert "round 2: 3 vectors came, expected 4 at least" in caplog.text
    assert not run.states[1][GRAM].any()
    # In the next round one more may be missed.
    assert inside(run) == dict.fromkeys(("p1", "p2", "p3", "p4"), 3)
    assert not run.states[-1][CROSS][2].any() and run.states[-1][CROSS][1].any()


def test_who_comes_late_is_added_when_three_have_come(
    people: MakePeople, run_method: RunMethod
) -> None:
    """They are silent in the first sum of classes, and one of them for two rounds more."""
    seven = people((ALL,) * 7)
    late = ("p5", "p6", "p7")
    silent = together(
        lost(MessageType.QUERY, *late, phase="keys", people=7),
        lost(MessageType.QUERY, "p7", phase="keys", round=4, people=7),
    )
    run = run_method(seven, NAME, tamper=silent, **SUMS | {"rounds": 10})
    plain = run_method(seven, NAME, **PLAIN)
    assert_same_sums(run.states[-1], plain.states[-1])
    members = inside(run)
    assert {members[c] for c in ("p1", "p2", "p3", "p4")} == {2}
    (when,) = {members[c] for c in late}
    assert when > 4
    # Nobody's sum was of fewer than three, and equations are those of the last sums.
    assert min(run.metric("secure_people").values()) == 3
    assert run.states[-1]["answered"][0] == run.states[-1]["versions"][0]
    assert_same_heads(run, plain, 1e-4)


@pytest.mark.parametrize("at", [-1, -28, 2], ids=["weight", "count", "product"])
def test_of_too_few_for_groups_a_wrong_vector_leaves_people_their_own_heads(
    at: int, people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is asked for statistics again: two sums could be taken from one another."""
    run = run_method(people(), NAME, tamper=wrong("p3", STATISTICS, at), **SUMS | {"rounds": 5})
    assert inside(run) == dict.fromkeys(("p1", "p2", "p3", "p4"), SPENT)
    assert run.metric("secure_lost") == {(STATISTICS, ""): 1}
    assert "a secure sum is of no use, of 4: " in caplog.text
    assert "they are too few for groups" in caplog.text
    scores, alone = run.metric("macro_f1"), run.metric("own_heads_macro_f1")
    for client in ("p1", "p2", "p3", "p4"):
        assert abs(scores[5, client] - alone[5, client]) < 0.1


@pytest.mark.parametrize("round", [CLASSES, STATISTICS, EQUATIONS])
def test_a_wrong_vector_costs_its_group(
    round: int, people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sends one, in a round and once more in its group, spoils the sum of that alone."""
    settings = SUMS | {"rounds": 5}
    run = run_method(people((ALL,) * 7), NAME, tamper=wrong("p3", round, -1, 7), **settings)
    left = sorted(client for of, client in run.metric("secure_left_out") if of == round)
    assert "p3" in left and 3 <= len(left) <= 4
    assert f"left out: {', '.join(left)}: " in caplog.text
    assert run.metric("secure_people")[round, ""] == 7 - len(left)
    inside_them = {client for client, of in inside(run).items() if of == STATISTICS}
    everybody = {f"p{i}" for i in range(1, 8)}
    assert inside_them == everybody - (set() if round == EQUATIONS else {*left})
    if round == STATISTICS:
        seven = people((ALL,) * 7)
        rest = {client: one for client, one in seven.clients.items() if client not in left}
        honest = replace(seven, clients=rest)
        plain = run_method(honest, NAME, **PLAIN)
        assert_same_sums(run.states[-1], plain.states[-1])


def test_below_three_there_is_no_run(people: MakePeople, run_method: RunMethod) -> None:
    with pytest.raises(RunError, match="2 people take part, expected 3 at least"):
        run_method(people((ALL,) * 2), NAME, **SUMS)


def test_a_weak_device_hears_sums_and_is_in_none(people: MakePeople, run_method: RunMethod) -> None:
    """Sums of as few features would be of those who have as few: of it alone."""
    five = people((ALL,) * 5)
    weak = run_method(five, NAME, capacities="p1=0.5", **SUMS)
    assert inside(weak) == {"p1": 0} | dict.fromkeys(("p2", "p3", "p4", "p5"), 2)
    del five.clients["p1"]
    assert_same_sums(weak.states[-1], run_method(five, NAME, **PLAIN).states[-1])
    own = weak.client_states()["client/p1"]
    assert not torch.equal(own["model.linear1.weight"], own["alone.linear1.weight"])


def test_with_noise_no_equations_are_asked_for(people: MakePeople, run_method: RunMethod) -> None:
    keys = {"hyper": {"noise": 1.0}}
    run, plain = (run_method(people(), NAME, **keys, **of) for of in (SUMS, PLAIN))
    assert_same_sums(run.states[-1], plain.states[-1])
    assert set(run.metric("secure_people")) == {(1, ""), (2, "")}
    spent = run.metric("epsilon"), plain.metric("epsilon")
    assert spent[0][4, ""] == spent[1][4, ""] > 0
    assert not run.states[-1]["pooled"].any()


def test_a_person_in_the_sums_cannot_be_forgotten(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), NAME, **SUMS | {"rounds": 2})
    assert isinstance(run.strategy.half, SummedRidgeServer)
    with pytest.raises(RunError, match="client 'p1': fedsub-ridge with secure-aggregation: every"):
        run.strategy.half.without(run.states[1], "p1")
    left = run.strategy.half.without(run.states[0], "p1")
    assert left.keys() == run.states[0].keys() - {"member/p1"}
    spent = run.states[1]["member/p1"].clone()
    spent[1] = SPENT
    assert "member/p1" not in run.strategy.half.without(run.states[1] | {"member/p1": spent}, "p1")


def test_plain_runs_have_the_other_half(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(), NAME, **PLAIN | {"rounds": 1})
    assert type(run.strategy.half) is FedSubRidgeServer


def test_who_holds_fewer_features_is_in_no_sum_and_receives_all(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Equations are of the sums that all who add them up are sent, with as many features."""
    run = run_method(people((ALL,) * 5), NAME, capacities="p1=0.5", **SUMS)
    added = dict.fromkeys([(round, "") for round in (CLASSES, STATISTICS, EQUATIONS)], 4)
    assert run.metric("secure_people") == added
    assert not run.refusals and inside(run)["p2"] == STATISTICS
    assert inside(run).get("p1", 0) == 0
