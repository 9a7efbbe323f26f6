"""FedFomo: every device weighs other people's models by how well they do on its own data."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.methods.card import Cost, Hyperparameters, MethodCard
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import option
from fedsub_core.wire.bundles import Declaration, dense

#: What a device gained from each peer's model, beside its own model.
GAINS = "gains"


@dataclass(frozen=True)
class FedFomoHyperparameters(Hyperparameters):
    """Exploring is the authors' code's, five models are PFLlib's."""

    peers: bool = option(False, "send people's models to other devices; people agreed to this")
    peer_models: int = option(
        5, "M: number of other people's models that a device receives", minimum=1
    )
    validation: float = option(
        0.2, "share of a device's training part on which it compares models", above=0, below=1
    )
    explore: float = option(
        0.3, "probability in the first round that a peer is drawn at random", minimum=0, maximum=1
    )
    explore_fall: float = option(0.05, "how much this probability falls every round", minimum=0)


def peer(k: int, name: str) -> str:
    """Return the name by which a parameter of the k-th peer's model travels."""
    return f"peer{k}.{name}"


def sends(model: Architecture, hyper: FedFomoHyperparameters) -> Declaration:
    """Declare the model, and a gain for every peer, 0 where none was sent."""
    shapes = {name: dense(shape) for name, shape in model.parameter_shapes.items()}
    return {**shapes, GAINS: dense((hyper.peer_models,), exact=True)}


def receives(model: Architecture, hyper: FedFomoHyperparameters) -> Declaration:
    """Declare as many models; there are fewer where fewer people have sent one."""
    return {
        peer(k, name): dense(shape, optional=True)
        for k in range(hyper.peer_models)
        for name, shape in model.parameter_shapes.items()
    }


def cost(hyper: FedFomoHyperparameters, epochs: int) -> Cost:
    """Training on what is not held back; a forward pass of every candidate on what is."""
    judging = (hyper.peer_models + 2) * hyper.validation * 0.33
    tested = judging if hyper.tested == "received" else 0.0
    return Cost((1 - hyper.validation) * epochs + judging, tested)


CARD = MethodCard(
    name="fedfomo",
    idea="every device mixes other people's models, weighted by how much each helps on its "
    "own data",
    paper="Zhang et al., Personalized Federated Learning with First Order Model Optimization, "
    "ICLR 2021",
    learner="fedsub_client.methods.fedfomo:FedFomoLearner",
    strategy="strategies.methods.fedfomo:FedFomoServer",
    hyperparameters=FedFomoHyperparameters,
    up="the model, what each peer's model gained",
    down="other people's models",
    sends=sends,
    receives=receives,
    cost=cost,
    reports=("training_loss", "weight_of_others"),
    needs=("peers",),
    choose="People agree to show each other their models, have enough samples for a "
    "validation part, and can download several models (peer-models) a round. Otherwise, to "
    "compare with publications that use it.",
    privacy="The server sees each person's model after training and who gains from whom, and "
    "keeps the last model until the person is forgotten. Other people's devices receive that "
    "complete model, unchanged.",
    decisions=(
        "A device chooses among the peers' models, its own as trained, and its own from "
        "before that training. Gains and distances are measured from the last (as in the "
        "paper and the authors' code).",
        "The validation part is each class's last samples in the order of the file. It is the "
        "same in every round, whatever the run's split. So neighbouring windows are separated "
        "at one place a class, where a few may overlap. A class with one sample is used for "
        "training. A person without a class of two samples is validated on the training "
        "samples.",
        "A person who is asked for the first time chooses among peers' models like everybody. "
        "Until then their model is the common initial one. In the first round there are no "
        "peers.",
        "Among peers with equal gains, such as all at first, peers are drawn at random.",
        "A model at distance 0 from the earlier one, or with a loss that is not finite, has a "
        "gain of 0.",
        "If a client no longer answers, others get its last model until it is forgotten.",
        "The server makes no mean, so the robust filters have nothing to filter: a harmful model "
        "counts where it lowers a device's own validation loss, and nowhere else.",
        "A download has peer-models models, five by default; an upload has one model.",
    ),
    errors=(
        "PFLlib measures gains from the model as trained, so a device's own training never "
        "counts. This is not followed.",
    ),
)
