"""FedDSE: a weak device trains the units that its own samples excite most."""

from dataclasses import dataclass

from fedsub_core.method_parts.sub_models import SEES_SUB_MODELS
from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.options import choice, option
from fedsub_papers.methods.slices import slice_card


@dataclass(frozen=True)
class FedDSEHyperparameters(ReceivedHyperparameters):
    """A choice in each round."""

    every: int = option(1, "rounds from one choice of units to the next", minimum=1)
    statistic: str = choice(
        "mean",
        "frequency",
        doc="what a unit is chosen by: its mean output, or how often its output is above 0",
    )
    weights: str = choice(
        "clients", "examples", doc="weight of an upload in means: 1 for each client, or its samples"
    )


CARD = slice_card(
    name="feddse",
    idea="a weak device receives the full model, and trains the units of each hidden layer "
    "that its own samples activate most",
    paper="Wang et al., FedDSE: Distribution-aware Sub-model Extraction for Federated Learning "
    "over Resource-constrained Devices, WWW 2024",
    learner="fedsub_papers.client.methods.feddse:FedDSELearner",
    strategy="fedsub_papers.strategies.methods.feddse:FedDSEServer",
    hyperparameters=FedDSEHyperparameters,
    down="the whole model; between choices the units that were chosen",
    up="the chosen units, trained",
    privacy=f"{SEES_SUB_MODELS} Which units a person's samples excite most tells something of "
    "them.",
    choose="People differ, weak devices can hold the model but not train all of it, and "
    "uploads cost more than downloads.",
    decisions=(
        "The budget applies only to training. A weak device receives the full model, and makes "
        "one forward pass over its samples with it, about a third of an epoch of the full model. "
        "With every = n, it receives the full model in one of n rounds, and only the units that "
        "it chose in the others.",
        "The paper does not define highly activated. Here a unit's score is its mean output after "
        "ReLU over all samples and positions; with statistic = frequency it is how often the "
        "output is above 0. Of units with equal scores, the first are chosen.",
        "In a module, a unit's output is taken as the layers behind it read it, with values below "
        "0 as 0, and averaged over these layers. Units of a residual stream are read by its "
        "blocks and by the head.",
        "A model of a size that no device has (option sizes) has the units that were chosen most "
        "often.",
        "A device chooses max(1, ceil(c * units)) units of each hidden layer.",
        "A device is tested with the new model, and in it with the units of its last choice. A "
        "device that has not chosen yet chooses with its training samples.",
    ),
)
