"""FIARSE: weak devices train the largest numbers of the model, and learn which these are."""

from dataclasses import dataclass

from fedsub_core.methods.card import SEES_MODELS, MethodCard
from fedsub_core.methods.card_parts import WeakDevices
from fedsub_core.options import choice, option
from fedsub_papers.methods.elements import DECISIONS, ElementHyperparameters, element_model


@dataclass(frozen=True)
class FIARSEHyperparameters(ElementHyperparameters):
    """The paper's gradient; scores that fit any start."""

    factor: bool = option(True, "whether gradients are bent by how near a number is to the rest")
    weights: str = choice(
        "clients", "examples", doc="weight of an upload in means: 1 for each client, or its samples"
    )


CARD = MethodCard(
    name="fiarse",
    idea="a weak device trains the largest numbers of one model, and training makes important "
    "numbers large; each number is averaged over the devices that hold it",
    paper="Wu et al., FIARSE: Model-Heterogeneous Federated Learning via Importance-Aware Submodel "
    "Extraction, NeurIPS 2024",
    learner="fedsub_papers.client.methods.fiarse:FIARSELearner",
    strategy="fedsub_papers.strategies.methods.fiarse:FIARSEServer",
    hyperparameters=FIARSEHyperparameters,
    up="the numbers that the device holds, and which",
    down="the numbers that the device holds, and which",
    sends=element_model,
    receives=element_model,
    weak=WeakDevices("elements", resizes=True),
    choose="Few bytes may travel, and devices have memory for the full model. Its paper finds "
    "it better than heterofl and fedrolex at an equal share of the numbers.",
    privacy=SEES_MODELS,
    decisions=(
        *DECISIONS,
        "The threshold th is the lowest score of the numbers that a device received, and stays "
        "the same for the round. If training moves a number's score s below th, the number counts "
        "as 0 and is not trained until the next round, but it keeps its value. The gradient of "
        "all other numbers is multiplied by 1 + 2 th s / (s + th)^2.",
        "A device that holds all numbers drops none. But th, the lowest of all scores, still "
        "changes its gradients. So if all devices have capacity 1, fiarse equals FedAvg only with "
        "factor = false.",
        "A number is averaged over the devices that hold it. The code leaves out devices whose "
        "number did not change; this differs only if a number that is held did not change.",
        "All clients have the same weight, as in the code; weights = examples weighs by samples.",
    ),
    errors=(
        "In the authors' code the mask is boolean, so no gradient passes through it, and the "
        "paper's factor has no effect. factor = false computes that.",
    ),
)
