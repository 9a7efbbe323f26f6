"""FedHome: FedAvg, then each device trains the head on data whose classes are balanced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedsub_core.method_parts.layers import HeadHyperparameters
from fedsub_core.method_parts.phases import phase, require_within
from fedsub_core.methods.card import MethodCard, whole_model
from fedsub_core.methods.card_parts import Training
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Declaration

#: Rounds of heads in the publications' runs, 50 of 300.
SHARE = 1 / 6


@dataclass(frozen=True)
class FedHomeHyperparameters(HeadHyperparameters):
    """Defaults of ProtoHAR's and FedSub's comparisons."""

    head_rounds: int = option(
        0,
        "number of last rounds, in which devices train only heads; 0 = a sixth of the run",
        minimum=0,
    )
    smote: bool = option(True, "balance classes with synthetic embeddings")
    neighbours: int = option(
        5, "number of nearest samples of its class with which a sample may be mixed", minimum=1
    )
    rare: str = choice(
        "copy",
        "drop",
        doc="classes with at most `neighbours` samples: balanced as far as possible (a single "
        "sample is copied), or left out of the head's training",
    )
    head_lr_factor: float = option(
        1.0, "the head's learning rate, as a multiple of the run's", above=0
    )


def trains_heads(hyper: FedHomeHyperparameters, turn: Turn) -> bool:
    """Whether a round is one of the last, in which heads train and nothing travels."""
    return turn.round > turn.rounds - phase(hyper.head_rounds, turn.rounds, SHARE)


def sends(model: Architecture, hyper: FedHomeHyperparameters) -> Declaration:
    """Declare the model, which does not travel in the last rounds."""
    return {name: replace(one, optional=True) for name, one in whole_model(model, hyper).items()}


def check(hyper: FedHomeHyperparameters, rounds: int) -> None:
    """Refuse more rounds of heads than there are rounds."""
    require_within("fedhome", "head-rounds", phase(hyper.head_rounds, rounds, SHARE), rounds)


CARD = MethodCard(
    name="fedhome",
    idea="FedAvg, then each device trains the head on its data with balanced classes",
    paper="Wu et al., FedHome: Cloud-Edge Based Personalized Federated Learning for In-Home "
    "Health Monitoring, IEEE Transactions on Mobile Computing 2022",
    learner="fedsub_client.methods.fedhome:FedHomeLearner",
    strategy="strategies.methods.fedhome:FedHomeServer",
    hyperparameters=FedHomeHyperparameters,
    up="the model; in the last rounds nothing but the number of samples",
    down="the model; in the last rounds only to who has not had it there",
    sends=sends,
    training=Training(rates=("head_lr_factor",)),
    fixes_rounds=lambda hyper: True,
    check=check,
    choose="People's classes are unbalanced, and FedAvg's model is good for most: a personal "
    "head costs only a few cheap rounds at the end.",
    decisions=(
        "The cost is that of a round of FedAvg. A round of heads costs a forward pass of the body, "
        "0.33 epochs, and 0.02 a pass over as many samples as the balanced data have.",
        "The last sixth of the run trains heads, like 50 of 300 rounds in the comparison. A "
        "device takes FedAvg's last model in the first of these rounds in which it is asked, "
        "and keeps its own from then on.",
        "A device that is first asked in those rounds, or only tested there, gets that model "
        "then. The server remembers who has it, and sends these devices nothing more.",
        "Until then the model is tested as received, afterwards as trained on the device.",
        "Synthetic embeddings are drawn from a random stream of each person, the same in all "
        "rounds of heads. So computing them again gives the same embeddings.",
        "Heads train on shuffled batches; the public code never shuffles.",
        "smote = false trains heads on the data as they are, which shows what balancing adds.",
        "A person whose classes all have up to `neighbours` samples keeps them under rare = drop.",
    ),
    errors=(
        "The paper's model is an autoencoder with a classifier. Neither comparison that ran "
        "FedHome has the autoencoder, and FedSub does not have it either: embeddings are the "
        "model's own.",
        "The public code drops classes of up to 5 samples, so the head forgets them. Here "
        "they are balanced with fewer neighbours. rare = drop follows that code.",
    ),
)
