"""FedAvg: one model for all, the mean of everybody's."""

from __future__ import annotations

from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters

CARD = MethodCard(
    name="fedavg",
    idea="one global model, the mean of the devices' models",
    paper="McMahan et al., Communication-Efficient Learning of Deep Networks from "
    "Decentralized Data, AISTATS 2017",
    learner="fedsub_client.learners.fedavg:FedAvgLearner",
    strategy="strategies.fedavg:FedAvgStrategy",
    hyperparameters=ReceivedHyperparameters,
)
