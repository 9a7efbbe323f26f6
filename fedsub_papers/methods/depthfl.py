"""DepthFL: weak devices hold the first layers, whole; all exits teach each other."""

from dataclasses import dataclass

from fedsub_core.method_parts.sub_models import SEES_SUB_MODELS
from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters
from fedsub_core.methods.card_parts import Prediction, Training, WeakDevices
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class DepthFLHyperparameters(ReceivedHyperparameters):
    """The authors', as in their Flower baseline."""

    kd: bool = option(True, "let exits teach each other")
    ramp: int = option(
        300,
        "rounds until exits teach with full weight; usually a third of the run's rounds",
        minimum=1,
    )
    feddyn: bool = option(True, "correct drift as in FedDyn")
    alpha: float = option(0.1, "FedDyn's weight", above=0)
    weights: str = choice(
        "clients", "examples", doc="weight of an upload in means: 1 for each client, or its samples"
    )


CARD = MethodCard(
    name="depthfl",
    idea="a weak device holds the first layers with a classifier (exit) at their end; all "
    "exits teach each other, and all predict",
    paper="Kim et al., DepthFL: Depthwise Federated Learning for Heterogeneous Clients, ICLR 2023",
    learner="fedsub_papers.client.methods.depthfl:DepthFLLearner",
    strategy="fedsub_papers.strategies.methods.depthfl:DepthFLServer",
    prediction=Prediction("fedsub_papers.client.methods.depthfl:MeanOfExits"),
    hyperparameters=DepthFLHyperparameters,
    up="the device's first layers and their exits",
    down="the device's first layers and their exits",
    training=Training(ignores=("loss",)),
    weak=WeakDevices("model", "fedsub_papers.models.exits:shortened"),
    choose="Some devices cannot hold the model, and it has several hidden layers of like sizes "
    "(cnn1d, or an mlp such as hidden = 128,128,256,512).",
    privacy=SEES_SUB_MODELS,
    decisions=(
        "The model is a chain, such as mlp, cnn1d or a Sequential of such layers. Another module "
        "is refused, because where its forward pass could end early is not known.",
        "Each hidden layer but the last has an exit: channels are averaged to four positions, and "
        "one linear layer follows. The model's own output is the last exit.",
        "A device of capacity c holds the model up to the deepest exit with at most c * c of all "
        "numbers. If even the first exit needs more, it holds the model up to that; the metric "
        "over_budget says how much more this is.",
        "A model has few exits, so parts have few sizes. With cnn1d (9 x 128, 6 classes) a device "
        "of c = 1/2 holds 5.8 % of the numbers, because the second exit needs 30 % and the device "
        "can hold 25 %. With the mlp 128,512 the first exit needs 1.8 %, and the second is the "
        "full model.",
        "The server sends the mean, corrected by FedDyn's drift. If no device of a round holds a "
        "tensor, the tensor and its drift stay as they were. Each device has a drift of its own, "
        "which it keeps.",
        "FedDyn's drift sums the changes of all rounds, and with them what a hostile device "
        "changed. With robust = clip, a device's changes of all rounds together count up to three "
        "times the median of the round's devices. For that the server keeps their sum for each "
        "device, which is as large as the model. A hostile device within these bounds still "
        "costs the others macro F1, and can end a long run. If devices may be hostile, use "
        "feddyn = false.",
        "ramp = 300 is the paper's value for 1000 rounds. With it, exits hardly teach each other "
        "in short runs.",
        "Predictions average the logits of all exits that the device holds.",
    ),
)
