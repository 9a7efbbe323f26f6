"""pFedMe: personal models by Moreau envelopes."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.addends import MEANS
from fedsub_core.methods.card import PLAIN, Cost, Hyperparameters, MethodCard
from fedsub_core.methods.card_parts import Training
from fedsub_core.options import option


@dataclass(frozen=True)
class PFedMeHyperparameters(Hyperparameters):
    """Defaults of the authors' code, whose best tables use a beta of 2; every step is plain."""

    lam: float = option(15.0, "weight of the pull between personal and local model", minimum=0)
    personal_steps: int = option(
        5, "K: number of steps of the personal model on each batch", minimum=1
    )
    personal_lr: float = option(0.09, "learning rate of the personal model", above=0)
    beta: float = option(
        1.0, "step of the server's model towards the clients' mean; 1 is the mean", above=0
    )


def cost(hyper: PFedMeHyperparameters, epochs: int) -> Cost:
    """Return K gradients for every batch."""
    return Cost(epochs * hyper.personal_steps)


def rule(hyper: PFedMeHyperparameters, lr: float) -> str:
    """Return the rule by which both models move on a batch, in words."""
    return (
        f"on each batch {hyper.personal_steps} plain steps of rate {hyper.personal_lr:g} of the "
        f"personal model, and one of the local model to it, of rate {lr * hyper.lam:g} (lr * lam)"
    )


CARD = MethodCard(
    name="pfedme",
    idea="a personal model near a local one; the local one follows it slowly, and is averaged",
    paper="Dinh et al., Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020",
    learner="fedsub_client.methods.pfedme:PFedMeLearner",
    strategy="strategies.methods.pfedme:PFedMeServer",
    sums=MEANS,
    hyperparameters=PFedMeHyperparameters,
    cost=cost,
    training=Training(rule=rule, ignores=PLAIN, rates=("personal_lr",)),
    choose="For comparison with publications that use it. It costs five times FedAvg's work, "
    "and its learning rates must be tuned.",
    privacy="The server sees each person's local model after training; the personal model stays at "
    "home. Other devices see only means of local models.",
    decisions=(
        "Steps are plain, without momentum, as in the paper.",
        "In each round the personal model starts from the received model, and continues from "
        "batch to batch, as in the authors' code.",
        "beta is 1, although the best tables of the authors' code use 2.",
        "lr * lam must be below 1 and personal-lr * lam below 2; otherwise the models overshoot.",
    ),
    errors=(
        "The authors' code adds a hidden weight decay of 0.001 to the personal steps: left out.",
        "It trains all clients in every round, whether they are drawn or not. Here only those "
        "that are drawn train.",
        "The personal accuracy that it prints is that of the local model, because its list of "
        "personal parameters is overwritten (found by reading; PFLlib has the same error). "
        "Here the personal model is tested.",
    ),
    regression=True,
)
