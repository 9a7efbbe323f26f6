"""Flado, a reading of ours: weak devices get the units by which they move as everybody does."""

from dataclasses import dataclass

from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.options import choice, option
from fedsub_papers.methods.slices import slice_card


@dataclass(frozen=True)
class FladoHyperparameters(ReceivedHyperparameters):
    """Ours."""

    memory: float = option(
        0.9, "share of a unit's score that is kept from one round to the next", minimum=0, below=1
    )
    least: float = option(
        0.05, "smallest probability that a unit is sent, whatever its score", above=0, below=1
    )
    weights: str = choice(
        "examples", "clients", doc="weight of an upload in means: its samples, or 1 for each client"
    )


CARD = slice_card(
    name="flado",
    idea="our reading of a paper: a weak device receives randomly drawn units, more often "
    "those that it changes as everybody does",
    paper="After what others say of Liao et al., Adaptive Channel Sparsity for Federated Learning "
    "under System Heterogeneity, CVPR 2023",
    strategy="fedsub_papers.strategies.methods.flado:FladoServer",
    hyperparameters=FladoHyperparameters,
    choose="For comparison only: it follows what others write about a paper that was not "
    "available, so its results say nothing about that paper.",
    decisions=(
        "All of it is this project's own. The server keeps a score for each unit of each weak "
        "client. A round's score is the client's change of the unit's weights and bias times "
        "everybody's mean change, summed. The score is a running mean over rounds (option memory) "
        "in which the client held the unit. For a size that no device has (option sizes), units "
        "are drawn without scores.",
        "Each unit has a probability p from least to 1. These maximise the sum of p times score. "
        "Their budget: a unit's multiplications in the full model times p, summed over the units, "
        "are the share c of the sum without p. So the units with the highest score for their cost "
        "come first. Then units are drawn, at least one for each layer.",
        "Then the units with the smallest p are removed, until the others need at most c * c of "
        "the full model's multiplications. A unit costs less if units of other layers are missing.",
        "In a module, each weight counts as one multiplication, because it is not known at how "
        "many positions its layers multiply.",
        "In its first round, without scores, a client gets ceil(c * units) of each layer, drawn "
        "as in feddrop.",
        "A device's state has the full model's shapes, because the number of units that it "
        "receives differs from round to round. What it trains and sends is small.",
    ),
)
