"""A node of Flower's simulation: the n-th client, its state in the context, its model asked for."""

from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, MessageType, RecordDict

from fedsub.testing.refusals import refused
from fedsub_client import model_file
from fedsub_client.store import RECORD
from fedsub_core.errors import RunError
from fedsub_core.wire import exchange


def model_of(node: Any, run: str = "run") -> dict[str, torch.Tensor]:
    question = RecordDict({exchange.MODEL: ConfigRecord({"run": run})})
    return model_file.model_of(exchange.unpack(node.ask(MessageType.QUERY, question))).params


def test_a_node_is_the_nth_client_and_keeps_its_state_in_the_context(
    phone: Any, trained: list[int]
) -> None:
    node, device = phone(simulated=True), phone("two")
    assert node.query()["client"] == "p"
    first = node.train(1)
    assert node.train(1) == first == device.train(1)
    download = node.receive(first, 1)
    assert node.train(2, download) == device.train(2, download)
    assert trained == [1, 1, 2, 2]
    assert not node.states.exists() and list(node.context) == [RECORD]
    assert node.saved.round == 2


def test_it_answers_with_the_very_model_it_kept(phone: Any) -> None:
    node = phone(simulated=True, method="fedavg-finetune")
    with pytest.raises(RunError, match=r"client 'p': it has trained no round of this run"):
        model_of(node)
    download = node.receive(node.train(1), 1)
    trained = model_of(node)
    node.ask(MessageType.EVALUATE, node.content(1, download))
    tested = model_of(node)
    kept = node.saved.model
    assert tested.keys() == trained.keys() == kept.params.keys()
    for name, tensor in tested.items():
        assert torch.equal(tensor, kept.params[name])
        assert not torch.equal(tensor, trained[name])


def test_a_persons_model_does_not_leave_the_device(phone: Any) -> None:
    device = phone()
    device.train(1)
    before = device.files()
    with pytest.raises(RunError, match=r"client 'p': a person's model does not leave the device"):
        model_of(device)
    assert device.files() == before


def test_methods_run_one_after_another_do_not_share_a_state(
    phone: Any, trained: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    node = phone(simulated=True, method="fedavg", beside="local,fedavg-finetune")
    for method in node.config.methods:
        alone = phone(method, simulated=True, method=method)
        for round in (1, 2):
            content = node.content(round, run=f"run of {method}", method=method)
            reply = exchange.unpack(node.ask(MessageType.TRAIN, content))
            assert reply == alone.train(round), "as on a node that never saw another method"
            saved = node.saved_of(method)
            assert (saved.method, saved.run, saved.round) == (method, f"run of {method}", round)
            for name, tensor in alone.saved.state.items():
                assert torch.equal(saved.state[name], tensor)
        kept = model_of(node, f"run of {method}")
        assert all(torch.equal(kept[name], t) for name, t in alone.saved.model.params.items())
        with pytest.raises(RunError, match=r"client 'p': it has trained no round of this run"):
            model_of(node, "the run of another method")
    # And the first one goes on where it left off, as if no other had come between.
    content = node.content(3, run="run of fedavg", method="fedavg")
    reply = exchange.unpack(node.ask(MessageType.TRAIN, content))
    alone = phone("again", simulated=True, method="fedavg")
    assert reply == [alone.train(round) for round in (1, 2, 3)][-1]
    assert len(trained) == 12 + 4 and caplog.text == ""


def test_a_method_that_is_not_of_the_run_is_refused(phone: Any) -> None:
    node = phone(simulated=True, method="fedavg", beside="local")
    node.train(1)
    before = node.saved
    for kind in (MessageType.TRAIN, MessageType.EVALUATE):
        with refused(RunError, "client 'p'", "'ditto'", expected="fedavg, local"):
            node.ask(kind, node.content(2, method="ditto"))
    assert node.saved.reply == before.reply and node.saved.round == 1
