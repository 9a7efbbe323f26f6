"""Flado, a reading of ours: weak devices get the units by which they move as everybody does."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.methods.slices import slice_card
from fedsub_core.options import choice, option


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
    strategy="strategies.methods.flado:FladoStrategy",
    hyperparameters=FladoHyperparameters,
    choose="For comparison only: it follows what others write about a paper that was not "
    "available, so its results say nothing about that paper.",
    decisions=(
        "All of it is ours. A unit's score at a client is the mean over rounds (memory) of the "
        "product of everybody's mean move of its weights and bias with the client's own, in rounds "
        "in which the client held it. Of a size that is nobody's own (option sizes) they are drawn "
        "alike.",
        "Chances p maximise the sum of p times score, where p times a unit's multiplications at "
        "full width sum to the share c of all, and p is from least to 1: the units of highest "
        "score for their cost come first. Then units are drawn, at least one a layer.",
        "The units of smallest chance are left out until the rest multiplies c * c as often as the "
        "whole model at most: units cost less where others lack.",
        "In a module, each weight counts as one multiplication, because it is not known at how "
        "many positions its layers multiply.",
        "In its first round, without scores, a client gets ceil(c * units) of each layer, "
        "drawn as in feddrop.",
        "A device's state has the full model's shapes, because the number of units that it "
        "receives differs from round to round. What it trains and sends is small.",
    ),
)
