"""FedRolex: weak devices hold a window of units that moves on."""

from dataclasses import dataclass

from fedsub_core.method_parts.sub_models import SubModelHyperparameters, sub_model_card
from fedsub_core.options import option


@dataclass(frozen=True)
class FedRolexHyperparameters(SubModelHyperparameters):
    """The paper's window moves by one unit a round."""

    step: int = option(1, "number of units by which the window moves in a round", minimum=1)


CARD = sub_model_card(
    name="fedrolex",
    idea="as heterofl, but a weak device's window of units moves from round to round",
    paper="Alam et al., FedRolex: Model-Heterogeneous Federated Learning with Rolling Sub-Model "
    "Extraction, NeurIPS 2022",
    strategy="fedsub_papers.strategies.methods.fedrolex:FedRolexServer",
    hyperparameters=FedRolexHyperparameters,
    choose="Most devices are weak, and you want the full model at the end: every unit is "
    "trained in turn.",
    decisions=(
        "In round r, counted from 1, the window begins at unit (r - 1) * step of each layer, "
        "and continues with the first unit after the last. All devices of one capacity hold "
        "the same units.",
        "It takes as many rounds as a layer has units until each unit was at all places of "
        "the window. In shorter runs, some units of wide layers are trained only by devices "
        "that hold the full model.",
    ),
    errors=(
        "The paper's window moves forward, its code's backward. Here it moves forward.",
        "The code weighs some tensors by counts over earlier rounds: left out.",
    ),
)
