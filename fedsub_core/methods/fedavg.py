"""FedAvg: one model for all, the mean of everybody's."""

from __future__ import annotations

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters

CARD = MethodCard(
    name="fedavg",
    idea="one global model, the mean of the devices' models",
    paper="McMahan et al., Communication-Efficient Learning of Deep Networks from "
    "Decentralized Data, AISTATS 2017",
    learner="fedsub_client.methods.fedavg:FedAvgLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=ReceivedHyperparameters,
    choose="People are similar, or you want one model for all. As a baseline, it shows what a "
    "personal method adds.",
    decisions=(
        "The mean is weighted by training samples, over the people whose uploads arrived.",
        "All people take part in every round, unless clients-per-round says otherwise; in the "
        "paper some are drawn.",
        "The model is tested as received, before training. With tested = trained it is tested "
        "after the device's training of that round. This is nearly fedavg-finetune, with a "
        "model one round older and at no cost.",
    ),
    regression=True,
)
