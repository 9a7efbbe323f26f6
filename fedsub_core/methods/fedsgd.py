"""FedSGD: one gradient of everybody's whole data a round."""

from __future__ import annotations

from fedsub_core.methods.card import Cost, MethodCard, ReceivedHyperparameters

CARD = MethodCard(
    name="fedsgd",
    idea="one plain step a round, on the mean of everybody's full gradient",
    paper="McMahan et al., Communication-Efficient Learning of Deep Networks from "
    "Decentralized Data, AISTATS 2017",
    learner="fedsub_client.learners.fedsgd:FedSGDLearner",
    strategy="strategies.fedavg:FedAvgStrategy",
    hyperparameters=ReceivedHyperparameters,
    cost=lambda hyper, epochs: Cost(1),
)
