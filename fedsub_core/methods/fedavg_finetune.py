"""FedAvg with fine-tuning: the global model is adapted at home before it is used."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import MEANS
from fedsub_core.method_parts.layers import HeadHyperparameters, head_cost
from fedsub_core.methods.card import Cost, MethodCard
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class FineTuneHyperparameters(HeadHyperparameters):
    """One epoch of everything, as FedSub's comparison has it."""

    finetune_epochs: int = option(1, "epochs of fine-tuning; 0 is FedAvg", minimum=0)
    finetune: str = choice(
        "all",
        "head",
        "head-then-all",
        doc="layers that are fine-tuned; head-then-all: first the head, then all",
    )


def cost(hyper: FineTuneHyperparameters, epochs: int) -> Cost:
    """Return FedAvg's cost, and that of fine-tuning in an evaluation."""
    own = hyper.finetune_epochs
    head = head_cost(own) if hyper.finetune.startswith("head") else 0
    return Cost(epochs, evaluation=head + (own if hyper.finetune.endswith("all") else 0))


CARD = MethodCard(
    name="fedavg-finetune",
    idea="FedAvg, whose global model each device fine-tunes before it is used",
    paper="Wang et al., Federated Evaluation of On-device Personalization, 2019",
    learner="fedsub_client.methods.fedavg_finetune:FineTuneLearner",
    strategy="strategies.methods.fedavg:FedAvgServer",
    sums=MEANS,
    hyperparameters=FineTuneHyperparameters,
    cost=cost,
    choose="The first personal method to try: Matsuda et al. (2022) find no consistent winner "
    "among personal methods, and often FedAvg with fine-tuning ahead. Start with finetune = "
    "head-then-all and 1 to 3 epochs.",
    decisions=(
        "One epoch of all layers, as in FedSub's comparison. FedRep's code tunes only the "
        "head, for 10 epochs, in the last round: finetune = head.",
        "head-then-all trains the head for these epochs, then all layers for as many.",
        "The tuned model is not kept: every evaluation and every export tunes the latest "
        "global model.",
    ),
    regression=True,
)
