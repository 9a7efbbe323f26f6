"""FedRep: first the head, on the common body, then the body."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import MEANS
from fedsub_core.method_parts.layers import HeadHyperparameters, body, head_cost
from fedsub_core.methods.card import Cost, MethodCard
from fedsub_core.methods.card_parts import Training
from fedsub_core.options import option


@dataclass(frozen=True)
class FedRepHyperparameters(HeadHyperparameters):
    """Defaults of ProtoHAR's comparison; the authors' code trains heads for 10 epochs."""

    head_epochs: int = option(1, "epochs of the head, with the body frozen", minimum=0)
    head_lr_factor: float = option(
        1.0, "the head's learning rate, as a multiple of the run's", above=0
    )
    finetune: bool = option(False, "in the last round, train only heads, those of all clients")


def cost(hyper: FedRepHyperparameters, epochs: int) -> Cost:
    """Return the cost of both phases."""
    return Cost(head_cost(hyper.head_epochs) + epochs)


CARD = MethodCard(
    name="fedrep",
    idea="each device trains its personal head on the common body, then the body under that head",
    paper="Collins et al., Exploiting Shared Representations for Personalized Federated "
    "Learning, ICML 2021",
    learner="fedsub_client.methods.fedrep:FedRepLearner",
    strategy="strategies.methods.fedrep:FedRepServer",
    sums=MEANS,
    hyperparameters=FedRepHyperparameters,
    up="the body",
    down="the body",
    sends=body,
    receives=body,
    cost=cost,
    training=Training(rates=("head_lr_factor",)),
    fixes_rounds=lambda hyper: bool(hyper.finetune),
    choose="As fedper, if devices can compute a third of an epoch more: each head is fitted "
    "to the common body before the body changes.",
    privacy="The server sees the body of each person's model after training; the head stays at "
    "home. Other devices see only means of bodies.",
    decisions=(
        "One epoch of the head, one of the body, as in ProtoHAR's comparison. The authors' code "
        "does 10 and 1, at lr 0.01, momentum 0.5 and weight decay 1e-4.",
        "Both phases have the run's learning rate; ProtoHAR's script trains heads with ten "
        "times that (head-lr-factor = 10).",
        "Bodies are averaged with weights by samples, as in the authors' code; the paper's "
        "mean is unweighted.",
        "The authors' code ends with a round in which all people train only heads: finetune = "
        "true.",
        "Each phase starts with momentum 0.",
    ),
    regression=True,
)
