"""FedSGD: one gradient of everybody's whole data a round."""

from __future__ import annotations

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import PLAIN, Cost, MethodCard, ReceivedHyperparameters
from fedsub_core.methods.card_parts import Training

CARD = MethodCard(
    name="fedsgd",
    idea="one plain gradient step a round, on the mean of everybody's full gradient",
    paper="McMahan et al., Communication-Efficient Learning of Deep Networks from "
    "Decentralized Data, AISTATS 2017",
    learner="fedsub_client.methods.fedsgd:FedSGDLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=ReceivedHyperparameters,
    cost=lambda hyper, epochs: Cost(1),
    training=Training(
        rule=lambda hyper, lr: (
            f"one step of rate {lr:g} on all of a person's training samples, without momentum"
        ),
        ignores=("epochs", "steps", "batch-size", *PLAIN),
    ),
    choose="As a baseline: one step a round takes many more rounds than FedAvg.",
    privacy="The server sees each person's gradient over all training data (as the model "
    "after one plain step). With few samples, this reveals more than a model trained for "
    "epochs. Other devices see only means.",
    decisions=("It is FedAvg with one epoch, one batch of all samples and no momentum.",),
    errors=("Ditto's code uses this name for a step on one mini-batch.",),
    regression=True,
)
