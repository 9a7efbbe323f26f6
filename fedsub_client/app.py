"""The ClientApp that a SuperNode runs: Flower's verbs, answered by the device."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsub_client.device import Device
from fedsub_core.pytorch import HERE, torch

__all__ = ["app"]

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say who this is and what its training part looks like."""
    return Message(_device(context).query(message.content), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do a round of local work."""
    return Message(_device(context).train(message.content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the personal model on this person's test part."""
    return Message(_device(context).evaluate(message.content), reply_to=message)


def _device(context: Context) -> Device:
    if HERE:  # several nodes share a core in simulation, and OpenMP teams fight over it
        torch.set_num_threads(1)
    return Device(context)
