"""The device object: a Flower NumPyClient that speaks the wire."""

from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import fitins_to_recorddict, recorddict_to_fitres
from flwr.supercore.task_identity import TaskIdentity

from fedsub.testing.refusals import refused
from fedsub_client.client import Arrays, FedSubClient
from fedsub_client.cohort import Cohort
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.config.run_config import read_config
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.standardise import moments, scaling
from fedsub_core.errors import MessageRefused
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.codec import Address, decode_upload, encode_download
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.exchange import Instructions

CARD = Card("made", "test", ("a", "b", "c"), ("p", "q"))
SCALING = scaling(moments(np.random.default_rng(9).normal(3, 2, (50, 2)).astype(np.float32)))


def person(client: str = "c0") -> SplitClient:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 90)
    x = rng.normal(y[:, None], 1, (90, 2)).astype(np.float32)
    return split_client(ClientData(client, x, y), CARD, SplitSettings("stratified"))


def cohort(method: str, *clients: SplitClient) -> Cohort:
    settings = read_config(None, {"method": method}).device_settings(method)
    return make_cohort(settings, CARD, clients or [person()])


def told(round: int, also: bool = False) -> dict[str, Any]:
    turn = Turn(round, 5, 0)
    return dict(Instructions(turn, "any", SCALING, also_evaluate=also).record())


def download(of: FedSubClient, client: str, round: int, bundle: Bundle | None = None) -> Arrays:
    address, receives = Address(client, round), of.cohort.receives
    return [np.frombuffer(encode_download(bundle or Bundle(), address, receives), np.uint8)]


def test_its_properties_are_the_handshake() -> None:
    properties = FedSubClient(cohort("fedsub")).get_properties({})
    assert (properties["client"], properties["examples"]) == ("c0", len(person().train_y))
    assert (properties["classes"], properties["shape"]) == (list("abc"), [2])
    assert properties["capacity"] == 1.0


def test_fit_returns_the_upload_as_one_message_of_ours() -> None:
    client = FedSubClient(cohort("fedsub"))
    arrays, examples, values = client.fit(download(client, "c0", 1), told(1))
    (array,) = arrays
    upload = decode_upload(array.tobytes(), Envelope("c0", 1, client.cohort.learner.sends))
    assert upload.examples == examples == len(person().train_y)
    assert upload.bits("classes").all() and values == {}
    assert client.report["training_loss"] > 0
    own = client.cohort.learner.predicted_by(client.cohort.state)
    assert all(torch.equal(client.model[name], tensor) for name, tensor in own.items())


def test_evaluate_tests_the_model_after_the_download() -> None:
    client = FedSubClient(cohort("fedavg"))
    shapes = client.cohort.learner.model.parameter_shapes
    ones = Bundle(tensors={n: Floats(np.ones(shape, np.float32)) for n, shape in shapes.items()})
    loss, tested, metrics = client.evaluate(download(client, "c0", 1, ones), told(1))
    assert tested == metrics["examples"] == len(person().test_y) and metrics["loss"] == loss
    assert all((tensor == 1).all() for tensor in client.model.values())
    assert not any((tensor == 1).all() for tensor in client.cohort.state.values())


def test_fit_may_be_asked_to_evaluate_what_it_trained() -> None:
    client, other = FedSubClient(cohort("local")), FedSubClient(cohort("local"))
    _, _, values = client.fit(download(client, "c0", 1), told(1, also=True))
    other.fit(download(other, "c0", 1), told(1))
    _, _, metrics = other.evaluate(download(other, "c0", 1), told(1))
    assert values == metrics and values["examples"] == len(person().test_y)


def test_the_device_refuses_what_is_not_for_it_and_stays_as_it_was() -> None:
    client = FedSubClient(cohort("fedsub"))
    before = {name: tensor.clone() for name, tensor in client.cohort.state.items()}
    for payload, complaint in (
        (download(client, "c1", 1), "client id: got 'c1', expected 'c0'"),
        (download(client, "c0", 5), "round: got 5, expected 1"),
        ([np.zeros(3, np.float32)], "one uint8 array"),
        ([], "one uint8 array"),
    ):
        for work in (client.fit, client.evaluate):
            with pytest.raises((MessageRefused, ValueError), match=complaint):
                work(payload, told(1))
    with refused(ValueError, "'turn'", got="'seed'"):
        client.fit(download(client, "c0", 1), {k: v for k, v in told(1).items() if k != "seed"})
    assert all(torch.equal(before[name], t) for name, t in client.cohort.state.items())


def test_a_device_has_one_client() -> None:
    with pytest.raises(ValueError, match="cohort of one, got 2"):
        FedSubClient(cohort("fedsub", person("c0"), person("c1")))


def test_it_also_works_behind_flowers_client_fn() -> None:
    client, same = FedSubClient(cohort("fedsub")), FedSubClient(cohort("fedsub"))
    alone = same.fit(download(same, "c0", 1), told(1))[0][0]

    def client_fn(context: Context) -> Client:
        return client.to_client()

    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 0, 0, 0
    ask = FitIns(ndarrays_to_parameters(download(client, "c0", 1)), told(1))
    content = fitins_to_recorddict(ask, keep_input=True)
    message = Message(content, 1, MessageType.TRAIN, group_id="1")
    context = Context(0, 1, {}, RecordDict(), {})
    reply = ClientApp(client_fn=client_fn)(message, context)
    got = recorddict_to_fitres(reply.content, keep_input=True)
    np.testing.assert_array_equal(parameters_to_ndarrays(got.parameters)[0], alone)
