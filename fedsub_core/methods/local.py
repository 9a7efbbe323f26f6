"""Local training: no communication, what every person reaches alone."""

from __future__ import annotations

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import MethodCard, nothing
from fedsub_core.methods.card_parts import WeakDevices

CARD = MethodCard(
    name="local",
    idea="each person trains alone, without a federation",
    paper="A baseline of no paper",
    learner="fedsub_client.methods.fedavg:FedAvgLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    up="nothing",
    down="nothing",
    sends=nothing,
    receives=nothing,
    weak=WeakDevices("model"),
    choose="Always, as a baseline for any other method: a federation that is not better than "
    "training alone is of no use to that person.",
    privacy="No part of a model leaves a device. The server sees what it sees in every run: "
    "numbers of samples, sums for standardisation, metrics.",
    decisions=(
        "A device with a capacity below 1 trains the model that it can hold: the first units "
        "of each hidden layer.",
    ),
    regression=True,
)
