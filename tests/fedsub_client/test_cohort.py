"""A device is a cohort of one: the same numbers alone and in a stack, by every way to call it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fedsub_client.parts import SplitClient, split_client
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import fitins_to_recorddict, recorddict_to_fitres
from flwr.supercore.task_identity import TaskIdentity

from fedsub_client.client import FedSubClient
from fedsub_client.cohort import Cohort, build_learner
from fedsub_core.config.run_config import read_config
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.standardise import moments, pool, scaling
from fedsub_core.errors import MessageRefused
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Download, UnitRows, Upload
from fedsub_core.wire.codec import decode_upload, encode_download
from fedsub_core.wire.envelope import Envelope

CARD = Card("made", "test", ("a", "b", "c"), ("p", "q"))
SCALING = scaling(moments(np.random.default_rng(9).normal(3, 2, (50, 2)).astype(np.float32)))


def people(counts: tuple[int, ...] = (90, 40, 65)) -> list[SplitClient]:
    rng = np.random.default_rng(1)
    config = read_config(None, {"split": "stratified"})
    made = []
    for i, n in enumerate(counts):
        y = rng.integers(0, 3, n)
        x = rng.normal(y[:, None] * (i + 1), 1, (n, 2)).astype(np.float32)
        made.append(split_client(ClientData(f"c{i}", x, y), CARD, config))
    return made


def cohort(method: str, clients: list[SplitClient], standardise: str = "federation") -> Cohort:
    config = read_config(None, {"method": method, "fedsub.relevance": "naive"})
    return Cohort(build_learner(config, method, CARD, (2,)), CARD, clients, standardise)


def assert_equal_uploads(one: Upload, other: Upload) -> None:
    assert one.examples == other.examples and one.prototype_version == other.prototype_version
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_allclose(one.scores, other.scores)
    for name, mask in one.masks.items():
        np.testing.assert_array_equal(mask, other.masks[name])
        np.testing.assert_allclose(one.layers[name].rows, other.layers[name].rows, atol=1e-6)
    for label, prototype in one.prototypes.items():
        np.testing.assert_allclose(prototype, other.prototypes[label], atol=1e-6)
    for name, tensor in one.dense.items():
        np.testing.assert_allclose(tensor, other.dense[name], atol=1e-6)


@pytest.mark.parametrize("method", ["fedsub", "fedavg", "local"])
def test_a_cohort_of_one_gives_the_numbers_of_the_stack(method: str) -> None:
    clients = people()
    stack, alone = cohort(method, clients), [cohort(method, [c]) for c in clients]
    for round in (1, 2):
        together = stack.fit(round, SCALING, range(3), [Download()] * 3)
        for i, one in enumerate(alone):
            assert_equal_uploads(one.fit(round, SCALING, [0], [Download()])[0], together[i])
            for name, tensor in one.state.items():
                torch.testing.assert_close(tensor[0], stack.state[name][i], atol=1e-6, rtol=0)
    evaluation = stack.evaluate(1, SCALING, range(3), [Download()] * 3)
    for i, one in enumerate(alone):
        own = one.evaluate(1, SCALING, [0], [Download()])
        assert own.loss[0] == pytest.approx(float(evaluation.loss[i]), abs=1e-6)


def test_clients_that_are_not_addressed_stay_as_they_are() -> None:
    some = cohort("fedsub", people())
    before = {name: tensor.clone() for name, tensor in some.state.items()}
    some.fit(1, SCALING, [2, 0], [Download(), Download()])
    for name, tensor in some.state.items():
        assert torch.equal(tensor[1], before[name][1])
        assert not torch.equal(tensor[0], before[name][0])


def test_evaluation_keeps_nothing() -> None:
    one = cohort("fedavg", people()[:1])
    before = {name: tensor.clone() for name, tensor in one.state.items()}
    shapes = one.learner.model.parameter_shapes
    dense = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with_ones = one.evaluate(1, SCALING, [0], [Download(dense=dense)])
    assert all(torch.equal(before[name], tensor) for name, tensor in one.state.items())
    assert float(with_ones.loss[0]) != float(one.evaluate(1, SCALING, [0], [Download()]).loss[0])


@pytest.mark.parametrize("mode", ["federation", "client", "none"])
def test_standardisation_is_of_training_parts_alone(mode: str) -> None:
    clients = people()
    shared = scaling(pool([moments(c.train_x) for c in clients])) if mode == "federation" else None
    train, test = cohort("local", clients, mode)._stacks(1, shared)
    whole = np.concatenate([c.train_x for c in clients])
    for i, c in enumerate(clients):
        basis = {"federation": whole, "client": c.train_x, "none": None}[mode]
        mean, std = (0, 1) if basis is None else (basis.mean(0), basis.std(0))
        for data, x in ((train, c.train_x), (test, c.test_x)):
            np.testing.assert_allclose(
                data.x[i, : len(x)].numpy(), (x - mean) / std, rtol=1e-4, atol=1e-4
            )
            assert not data.x[i, len(x) :].any(), "padding is zero"


def order(round: int) -> dict[str, Any]:
    return dict(exchange.order(round, SCALING))


def download(client: str, round: int, **layers: UnitRows) -> list[np.ndarray[Any, Any]]:
    return [np.frombuffer(encode_download(Download(layers), client, round), np.uint8)]


def test_the_numpy_client_speaks_the_wire_and_integrates_only_named_units() -> None:
    client = FedSubClient(cohort("fedsub", people()[:1]))
    properties = client.get_properties({})
    assert (properties["client"], properties["examples"]) == ("c0", len(people()[0].train_y))
    arrays, examples, _ = client.fit(download("c0", 1), order(1))
    model = client.cohort.learner.model
    upload = decode_upload(arrays[0].tobytes(), Envelope("c0", 1, model, prototype_size=2))
    assert upload.examples == examples == len(people()[0].train_y)
    assert set(upload.prototypes) == {0, 1, 2}

    units = np.zeros(3, np.bool_)
    units[1] = True
    rows = UnitRows(units, np.full((1, 513), 0.25, np.float32))
    layers = {"linear3": rows}
    before = client.cohort.learner.params(client.cohort.state)
    after = client.cohort.learner.receive(client.cohort.state, [Download(layers)])
    assert (after["linear3.weight"][0, 1] == 0.25).all() and after["linear3.bias"][0, 1] == 0.25
    for name, tensor in before.items():
        kept = [0, 2] if name.startswith("linear3") else slice(None)
        assert torch.equal(after[name][0, kept], tensor[0, kept])
    loss, tested, metrics = client.evaluate(download("c0", 1), order(1))
    assert tested == len(people()[0].test_y) and metrics["loss"] == loss


def test_the_device_refuses_what_is_not_for_it_and_stays_as_it_was() -> None:
    client = FedSubClient(cohort("fedsub", people()[:1]))
    before = {name: tensor.clone() for name, tensor in client.cohort.state.items()}
    for payload, complaint in (
        (download("c1", 1), "client id: got 'c1', expected 'c0'"),
        (download("c0", 5), "round: got 5, expected 1"),
        ([np.zeros(3, np.float32)], "one uint8 array"),
    ):
        with pytest.raises((MessageRefused, ValueError), match=complaint):
            client.fit(payload, order(1))
    assert all(torch.equal(before[name], t) for name, t in client.cohort.state.items())
    with pytest.raises(ValueError, match="cohort of one, got 3"):
        FedSubClient(cohort("fedsub", people()))


def test_it_also_works_behind_flowers_client_fn() -> None:
    client = FedSubClient(cohort("fedsub", people()[:1]))
    alone = FedSubClient(cohort("fedsub", people()[:1])).fit(download("c0", 1), order(1))[0][0]

    def client_fn(context: Context) -> Client:
        return client.to_client()

    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 0, 0, 0
    ask = FitIns(ndarrays_to_parameters(download("c0", 1)), order(1))
    content = fitins_to_recorddict(ask, keep_input=True)
    message = Message(content, 1, MessageType.TRAIN, group_id="1")
    context = Context(0, 1, {}, RecordDict(), {})
    reply = ClientApp(client_fn=client_fn)(message, context)
    got = recorddict_to_fitres(reply.content, keep_input=True)
    np.testing.assert_array_equal(parameters_to_ndarrays(got.parameters)[0], alone)
