"""Rounds of which the server sees the sum: equal to plain ones, and nobody's own anywhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from torch import Tensor

from fedsub.engines.simulation import train_method
from fedsub_core.addends import MEANS
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import RunError
from fedsub_core.methods.table import HOUSE, METHODS
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.summation import Summation
from fedsub_core.secure.uploads import vector_of
from fedsub_core.wire.bundles import Bundle, Whole
from fedsub_server.run_folder import DATABASE_FILE
from strategies.methods.fedsub_ridge.people import came
from strategies.protections.open_sum import most_weight
from strategies.protections.secure import Secure

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..lost_replies import lost
from ..tampered_grid import Reply

PLAIN: dict[str, Any] = dict(
    robust="none", lr=0.05, batch_size=16, hidden="16", standardise="client"
)
SUMS = PLAIN | {"secure_aggregation": True}
AVERAGING = [name for name, card in HOUSE.items() if card.sums == MEANS and name != "local"]


def assert_close(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=2e-6, rtol=0)


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedper", "pfedme"])
def test_a_run_of_sums_is_the_plain_one_but_for_rounding(
    name: str, people: MakePeople, run_method: RunMethod
) -> None:
    plain, sums = (run_method(people(), name, **keys) for keys in (PLAIN, SUMS))
    assert_close(sums.states[-1], plain.states[-1])
    assert sums.metric("secure_people") == {(1, ""): 4, (2, ""): 4}
    assert sums.metric("secure_shortened") == {(1, ""): 0, (2, ""): 0}
    assert set(sums.metric("bytes_secure_sent")) == set(sums.metric("bytes_up_sent"))
    assert not sums.refusals
    # The handshake tells no more: of features no sums of anybody's.
    said = sums.strategy.population.registry.introductions.values()
    assert not any(one.moments.sum.any() or one.moments.sumsq.any() for one in said)
    assert all(
        one.moments.sumsq.any() for one in plain.strategy.population.registry.introductions.values()
    )


def test_sums_are_those_of_quantised_plain_vectors_to_the_bit(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = run_method(people(), "fedavg", **SUMS)
    monkeypatch.setattr(Participant, "masked", lambda self, vector, name, origin: vector)
    monkeypatch.setattr(Summation, "open", lambda self: self._sum)
    plain = run_method(people(), "fedavg", **SUMS)
    for ours, theirs in zip(sums.states, plain.states, strict=True):
        assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())
    one, other = (run.grid.uploads[1, "p1"].message for run in (sums, plain))
    assert one.tensors[0].values != other.tensors[0].values


def test_the_first_round_by_hand(people: MakePeople, run_method: RunMethod) -> None:
    """Each moves by q = round(x n L / 8); the mean is sum(q) 8 / (L sum(n))."""
    plain = run_method(people(), "fedavg", rounds=1, **PLAIN)
    sums = run_method(people(), "fedavg", rounds=1, **SUMS)
    counts = {c.client: len(c.train_y) for c in plain.clients}
    most = 3 * sorted(counts.values())[2]
    assert most_weight(list(counts.values()), 3.0) == most
    levels = 2 ** (((2**31 - 1) // (4 * most)).bit_length() - 1)
    for name, mean in sums.states[0].items():
        start = plain.grid.downloads[1, "p1"].whole(name)
        total = np.zeros(start.shape, np.int64)
        for client, count in counts.items():
            moved = plain.grid.uploads[1, client].whole(name) - start
            total += np.rint(moved.astype(np.float64) * (count * levels / 8)).astype(np.int64)
        move = (total * (8 / (levels * sum(counts.values())))).astype(np.float32)
        np.testing.assert_array_equal(mean.numpy(), start + move)


@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        (MessageType.QUERY, "keys"),
        (MessageType.QUERY, "shares"),
        (MessageType.TRAIN, ""),
        (MessageType.QUERY, "unmask"),
    ],
)
def test_one_of_four_may_be_silent_in_any_exchange(
    kind: str, phase: str, people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", tamper=lost(kind, "p2", phase=phase), rounds=1, **SUMS)
    alone = lost(MessageType.TRAIN, "p2") if phase != "unmask" else None
    plain = run_method(people(), "fedavg", tamper=alone, rounds=1, **PLAIN)
    assert_close(run.states[0], plain.states[0])
    assert run.metric("secure_people") == {(1, ""): 3 + (phase == "unmask")}
    assert run.metric("missing_replies") == {(1, "p2"): 1}


def test_a_round_whose_sum_cannot_be_opened_changes_nothing(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    gone = lost(MessageType.QUERY, "p1", "p2", phase="unmask", round=2)
    run = run_method(people(), "fedavg", tamper=gone, rounds=3, **SUMS)
    assert run.metric("secure_lost") == {(2, ""): 1}
    first, second, third = run.states
    assert all(torch.equal(first[name], tensor) for name, tensor in second.items())
    assert any(not torch.equal(first[name], tensor) for name, tensor in third.items())
    assert "round 2: the secure sum is lost, and the model stays" in caplog.text
    assert "got 2 shares of 4, expected 3" in caplog.text


def test_of_too_few_people_there_is_no_run(people: MakePeople, run_method: RunMethod) -> None:
    two = people(((0, 1, 2),) * 2)
    with pytest.raises(RunError, match="round 1: secure-aggregation: 2 people take part"):
        run_method(two, "fedavg", **SUMS)
    with pytest.raises(RunError, match="4 people take part, expected 5 at least"):
        run_method(people(), "fedavg", secure_least=5, **SUMS)
    gone = lost(MessageType.QUERY, "p1", "p2", phase="keys")
    with pytest.raises(RunError, match="2 of 4 people showed keys, expected 3 at least"):
        run_method(people(), "fedavg", tamper=gone, **SUMS)


def test_who_sends_rubbish_is_refused_and_the_others_summed(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    def short(reply: Reply) -> Message:
        if reply.kind == MessageType.TRAIN and reply.client == "p3":
            bundle = reply.bundle().message
            bundle.tensors[0].values = bundle.tensors[0].values[:-4]
            return reply.with_bundle(bundle)
        return reply.message

    run = run_method(people(), "fedavg", tamper=short, rounds=1, **SUMS)
    assert run.refusals == {"p3": 1}
    assert run.metric("secure_people") == {(1, ""): 3}
    assert "client 'p3', round 1: values of vector: got" in caplog.text


def test_devices_that_diverged_have_no_weight(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(), "fedavg", rounds=1, **SUMS | {"lr": 1e30})
    assert run.metric("secure_shortened") == {(1, ""): 4}
    for name, tensor in run.states[0].items():
        np.testing.assert_array_equal(tensor.numpy(), run.grid.downloads[1, "p1"].whole(name))


def test_a_run_that_goes_on_ends_with_the_same_numbers(tmp_path: Path, people: MakePeople) -> None:
    config = RunConfig(
        method="fedavg", beside="", rounds=2, device="cpu", threads=1, **SUMS, checkpoint_seconds=0
    )
    federation = people()
    states = []
    for folder, rounds in (("whole", (2,)), ("halves", (1, 2))):
        for until in rounds:
            asked = RunConfig(**{**vars(config), "rounds": until})
            train_method(asked, "fedavg", federation, tmp_path / folder, lambda round: None)
        states.append(sorted((tmp_path / folder / "models").glob("*")))
    for ours, theirs in zip(*states, strict=True):
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(
    ("name", "own", "keys", "sums", "each"),
    [
        ("fedavg", {}, {"rounds": 2}, 2, 2),
        ("protohar", {}, {"rounds": 2}, 2, 3),
        ("fedsub", {"k_selection": "fixed:1", "fusion": "avg"}, {"rounds": 2}, 1, 1),
        ("fedsub-ridge", {}, {"rounds": 4, "encoder": "relu:8"}, 2, 2),
    ],
)
def test_the_servers_messages_and_database_hold_nobodys_vector(
    name: str,
    own: dict[str, Any],
    keys: dict[str, Any],
    sums: int,
    each: int,
    tmp_path: Path,
    people: MakePeople,
    run_method: RunMethod,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor anybody's tensors: looked for as they are, and as whole numbers of any size."""
    vectors: list[bytes] = []
    tensors: list[bytes] = []
    half = METHODS[name].load_learner(sums=True)
    vector_of_half = half.vector

    def note(self: Any, upload: Bundle, received: Bundle, levels: Any) -> Any:
        vector = vector_of_half(self, upload, received, levels)
        # Of first sums, of people with all classes, all are alike.
        if len(vector) > 40 and vector[-40:-2].any():
            vectors.append(vector[-40:-2].tobytes())
            arrays: list[Any] = [one.values for one in upload.tensors.values()]
            if "gram" in upload.tensors:
                whole = came(upload).statistics()
                arrays += [whole.gram, whole.cross]
            tensors.extend(one.tobytes()[-40:] for one in arrays if one.ravel()[-10:].any())
        return vector

    monkeypatch.setattr(half, "vector", note)
    told: list[bytes] = []

    def listen(reply: Reply) -> Message:
        for record in reply.message.content.values():
            for value in record.values():
                values = value if isinstance(value, list) else [getattr(value, "data", value)]
                told.extend(one for one in values if isinstance(one, bytes))
        return reply.message

    run = run_method(people(), name, tamper=listen, hyper=own, **SUMS | keys)
    hyper = {name: METHODS[name].hyperparameters(**own)}
    config = RunConfig(method=name, beside="", device="cpu", threads=1, hyper=hyper, **SUMS | keys)
    train_method(config, name, people(), tmp_path, lambda round: None)
    assert len(vectors) == 2 * 4 * sums and len(tensors) >= 2 * 4 * sums * each
    # The state itself is found, so that the search can find something.
    database = (tmp_path / DATABASE_FILE).read_bytes()
    state = [t.numpy().tobytes() for t in run.states[-1].values()]
    searched = [*told, *state]
    masked = vector_of(sent(run))
    assert any(masked[-40:-2].tobytes() in data for data in searched)
    assert all(one[-40:] in database for one in state if len(one) > 40)
    for one in [*vectors, *tensors]:
        assert not any(one in data for data in searched)
    # In the database the people's own states stand, too, for they are simulated; vectors do not.
    assert not any(one in database for one in vectors)
    assert isinstance(run.strategy.protection, Secure)


def sent(run: FinishedRun) -> Bundle:
    """Return an upload of the last round as the server read it."""
    upload = run.grid.uploads[2, "p1"].message
    values = np.frombuffer(upload.tensors[0].values, "<i2").reshape(-1, 2)
    return Bundle(tensors={"vector": Whole(values)})


@pytest.mark.parametrize("name", AVERAGING)
def test_what_averages_sends_the_same_to_all(
    name: str, people: MakePeople, run_method: RunMethod
) -> None:
    """And its server half makes of one upload that is the mean what it makes of all."""
    run = run_method(people(), name, rounds=1, **SUMS)
    downloads = {c: run.grid.downloads[1, c].message.tensors for c in ("p1", "p2", "p3", "p4")}
    assert all(list(one) == list(downloads["p1"]) for one in downloads.values())
    assert run.metric("secure_people") == {(1, ""): 4}
