"""FedPer: a common body, everybody's own head, trained together."""

from __future__ import annotations

from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.parts import HeadHyperparameters, body

CARD = MethodCard(
    name="fedper",
    idea="FedAvg of the body alone; the last layer stays personal",
    paper="Arivazhagan et al., Federated Learning with Personalization Layers, 2019",
    learner="fedsub_client.learners.fedavg:FedAvgLearner",
    strategy="strategies.fedavg:FedAvgStrategy",
    hyperparameters=HeadHyperparameters,
    up="the body",
    down="the body",
    sends=body,
    receives=body,
)
