"""The ClientApp of devices of which one cheats: a test puts it in the place of `fedsub_client.app`.

The client that FEDSUB_TEST_CHEAT names sends in every round what the attack FEDSUB_TEST_ATTACK of
`benchmarks/attackers.py` makes. Without an attack round 1 is honest; in round 2 it sends its upload
of round 1 once more, in round 3 an upload under the id of client p1; then it is honest again.
"""

import os
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsub_client.client import FedSubClient
from fedsub_client.device import Device
from fedsub_client.person import Person
from fedsub_core.wire import exchange
from fedsub_core.wire.frame import open_frame
from fedsub_core.wire.v2 import exchange_pb2 as pb

__all__ = ["app"]

app = ClientApp()


class Cheat(Device):
    """A device whose uploads are not what they should be."""

    def train(self, content: RecordDict) -> RecordDict:
        reply = super().train(content)
        round = exchange.read_instructions(content.config_records[exchange.TURN]).turn.round
        kept = Path(os.environ["FEDSUB_TEST_KEPT"])
        payload = exchange.unpack(reply)
        if round == 1:
            kept.write_bytes(payload)
        elif round == 2:
            reply[exchange.PAYLOAD] = exchange.pack(kept.read_bytes())
        elif round == 3:
            upload = pb.Bundle.FromString(open_frame(payload, 2**30, _unreadable))
            upload.client_id = "p1"
            reply[exchange.PAYLOAD] = exchange.pack(upload.SerializeToString())
        return reply


class Attacker(Device):
    """A device whose uploads are those of an attack."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.person.__class__ = Infected


class Infected(Person):
    """A person whose learner attacks."""

    def numpy_client(self, *arguments: Any) -> FedSubClient:
        from attack_runs import infect

        client = super().numpy_client(*arguments)
        name = os.environ["FEDSUB_TEST_ATTACK"]
        infect([client.cohort], [self.client], name, self.config.rounds)
        return client


def _device(context: Context) -> Device:
    if context.node_config["client-id"] != os.environ["FEDSUB_TEST_CHEAT"]:
        return Device(context)
    return (Attacker if "FEDSUB_TEST_ATTACK" in os.environ else Cheat)(context)


def _unreadable(what: str, got: object, expected: object) -> Exception:
    return AssertionError(f"{what}: got {got}, expected {expected}")


@app.query()
def query(message: Message, context: Context) -> Message:
    return Message(_device(context).answer("query", message.content), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    return Message(_device(context).answer("train", message.content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return Message(_device(context).answer("evaluate", message.content), reply_to=message)
