"""SubFLOT: sub-models that follow what each device trained last."""

from dataclasses import dataclass

from fedsub_core.method_parts.sub_models import sub_model_card
from fedsub_core.methods.card import ReceivedHyperparameters, whole_model
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class SubFLOTHyperparameters(ReceivedHyperparameters):
    """The paper's, section 5."""

    alpha: float = option(
        0.5,
        "share of one side in the mix of the global model and the device's last upload",
        minimum=0,
        maximum=1,
    )
    alpha_of: str = choice(
        "history",
        "global",
        doc="the side whose share alpha is: the device's last upload, or the global model",
    )
    mu: float = option(
        1.0,
        "weight of the pull to the received model, times the share of units that the device lacks; "
        "training diverges where mu times the learning rate is near 1 or above",
        minimum=0,
    )
    otp: bool = option(True, "align the global model's units with the device's last ones")
    proxy: str = choice(
        "history",
        "prefix",
        "magnitude",
        "random",
        doc="what the global model is aligned with: the device's last upload, or its own "
        "first, largest or drawn units",
    )
    sar: bool = option(True, "pull training to the received model")
    ota: bool = option(True, "align the upload with the global model's units")
    inputs: str = choice(
        "sum",
        "mean",
        doc="how weights are combined when their input units are merged: sum, which keeps the "
        "size of the layer's input, or mean, as the code that the paper cites scales",
    )
    plan: str = choice(
        "exact",
        "sinkhorn",
        doc="optimal transport: exact (needs the package POT), or smoothed by entropy (needs none)",
    )


CARD = sub_model_card(
    name="subflot",
    idea="by optimal transport, the server aligns the global model's units with those that a "
    "device trained last, and aligns its upload back",
    paper="SubFLOT: Efficient Personalized Federated Learning via Submodel Extraction with Optimal "
    "Transport, 2026",
    learner="fedsub_papers.client.methods.subflot:SubFLOTLearner",
    strategy="fedsub_papers.strategies.methods.subflot:SubFLOTServer",
    hyperparameters=SubFLOTHyperparameters,
    sends=whole_model,
    masked=False,
    choose="Some devices cannot hold the model, and people differ: a weak device's model is "
    "partly made of its own last model. The server needs time for the transport plans, and "
    "keeps everybody's last model.",
    decisions=(
        "alpha is the weight of the device's last upload. The paper's sections contradict each "
        "other: 5.7 weighs the global model, 10.2 the device's. At one half both are the same; "
        "elsewhere only this reading gives the order of the paper's Table 8 "
        "(studies/subflot-readings.toml). alpha-of = global is the other one.",
        "Each column of a transport plan is scaled to the sum 1, as in OTFusion's code. The "
        "printed formulas would divide every unit by the number of units.",
        "Where input units are merged, their weights are added (inputs = sum): the model then "
        "computes what it did. OTFusion's code takes their mean, which shrinks each layer of a "
        "smaller model and enlarges each of a larger one.",
        "Units of a layer are compared by the Euclidean distance of their weights and biases.",
        "Units that are added, as around a residual block, have one plan, which the layers that "
        "make them first decide on. The paper has a plan for each layer and passes the mean of "
        "them on, and that would add different units.",
        "What a norm has of a unit goes with the unit, its statistics, too.",
        "A device that has sent nothing yet, or had another capacity then, gets the first units "
        "of each layer (as in heterofl).",
        "Training is pulled to the model as received. At capacity 1 there is no pull.",
        "With ota = false, the units of an upload count as the first units of the global model. "
        "With otp = false, a device receives the first units.",
        "Means are weighted by samples.",
        "proxy = prefix, magnitude and random are the paper's ablation: the global model is "
        "aligned with its own first, largest or random units. random draws again for each person "
        "and round.",
    ),
)
