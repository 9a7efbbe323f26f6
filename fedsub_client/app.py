"""The ClientApp that a SuperNode runs: Flower's verbs, answered by the device."""

from __future__ import annotations

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

from fedsub_client.device import Device
from fedsub_client.leaving import farewell
from fedsub_client.policy import Unwilling
from fedsub_core.pytorch import HERE, torch

__all__ = ["app"]

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say who this is and what its training part looks like."""
    return _answered("query", message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do a round of local work."""
    return _answered("train", message, context)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the personal model on this person's test part."""
    return _answered("evaluate", message, context)


def _answered(kind: str, message: Message, context: Context) -> Message:
    if HERE:  # several nodes share a core in simulation, and OpenMP teams fight over it
        torch.set_num_threads(1)
    try:
        answer = farewell(context.node_config, message.content)
        answer = Device(context).answer(kind, message.content) if answer is None else answer
        return Message(answer, reply_to=message)
    except Unwilling as error:  # no crash, after which it would be asked again at once
        return Message(Error(0, str(error)), reply_to=message)
