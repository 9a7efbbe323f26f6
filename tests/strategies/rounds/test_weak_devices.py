"""Devices that say a capacity that cannot be, or send what does not fit it."""

import re
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, MessageType

from fedsub_core.models.kinds import mlp
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle, Floats, dense
from fedsub_core.wire.codec import Address, encode_upload
from fedsub_core.wire.encoding import Encoding

from ..finished_run import MakePeople, RunMethod
from ..tampered_grid import Reply
from .test_handshake import introduced, saying

OTHERS = ["p1", "p3", "p4"]


def test_below_the_smallest_part_of_the_model_a_device_is_turned_away(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_method(people(), "heterofl", tamper=introduced(saying("capacity", 1e-3), "p2"))
    assert run.strategy.population.clients == OTHERS and run.strategy.finished_rounds > 0
    assert "client 'p2': capacity: got 0.001, expected 1/512 at least" in caplog.text
    assert {client for _, client in run.metric("macro_f1")} == set(OTHERS)


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ([1.0, 0.5], "capacities: got 0.5 at least, expected the capacity 1.0"),
        ([1.0, 2.0], "capacities: got (1.0, 2.0), expected each a share in (0, 1]"),
        ([1.0] * 101, "a list of 101, expected 100 at most"),
        (["half"], "expected a number"),
    ],
)
def test_shares_to_draw_from_that_cannot_be_are_refused(
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
    shares: list[Any],
    why: str,
) -> None:
    tamper = introduced(saying("capacities", shares), "p2")
    run = run_method(people(), "heterofl", tamper=tamper, rounds=1)
    assert run.strategy.population.clients == OTHERS
    assert "client 'p2'" in caplog.text and why in caplog.text


def test_who_sends_more_than_it_said_that_it_holds_is_refused_and_the_others_go_on(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    whole = {n: dense(s) for n, s in mlp(4, 3).parameter_shapes.items()}
    tensors = {n: Floats(np.ones(d.shape, np.float32)) for n, d in whole.items()}

    def tamper(reply: Reply) -> Message:
        if reply.kind == MessageType.TRAIN and reply.client == "p2":
            address = Address("p2", reply.round)
            upload = encode_upload(Bundle(9, tensors=tensors), address, whole, Encoding())
            reply.message.content[exchange.PAYLOAD] = exchange.pack(upload)
        return reply.message

    given = {"tamper": tamper, "rounds": 2, "capacities": "p2=0.25"}
    run = run_method(people(), "heterofl", hyper={"masked_loss": False}, **given)
    assert run.strategy.finished_rounds == 2
    refused = {key for key, value in run.metric("refused_replies").items() if value}
    assert refused == {(1, "p2"), (2, "p2")}
    assert re.search(r"client 'p2', round 1: [^:]+: got .+, expected ", caplog.text)


def test_who_is_stronger_than_it_said_refuses_what_it_is_sent(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    tamper = introduced(saying("capacity", 0.25), "p2")
    run = run_method(people(), "heterofl", tamper=tamper, rounds=1)
    assert "client 'p2', round 1: shape of linear1.weight: got (32, 4), expected (128, 4)" in (
        caplog.text
    )
    assert run.metric("macro_f1").keys() == {(1, client) for client in OTHERS}
