"""FlexFL: how narrow each layer of a sub-model is follows from how often its units say nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsub_core.method_parts.sub_models import SEES_SUB_MODELS, ascending_shares
from fedsub_core.methods.card import Cost, ReceivedHyperparameters
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, dense
from fedsub_papers.methods.slices import hidden_layers, slice_card, sliced_model

#: The share of zeros in each hidden layer's outputs: asked of devices, then known to all.
APOZ = "apoz"


@dataclass(frozen=True)
class FlexFLHyperparameters(ReceivedHyperparameters):
    """The authors' code's."""

    pool: str = option(
        "0.25,0.4,0.5,0.9,1",
        "sizes of the pool's sub-models, as shares of the model's numbers, ascending",
        pattern=r"[0-9.]+(,[0-9.]+)*",
        like="numbers above 0, at most 1, with commas",
    )
    gamma: float = option(10.0, "weight of the loss by which smaller models teach", minimum=0)
    temperature: float = option(
        3.0, "temperature: logits are divided by it when models teach", above=0
    )
    weights: str = choice(
        "examples", "clients", doc="weight of an upload in means: its samples, or 1 for each client"
    )

    def shares(self) -> tuple[float, ...]:
        """Return the pool's shares of the model's numbers.

        Raises ConfigError if they do not ascend, or one is none.
        """
        return ascending_shares("flexfl.pool", self.pool)


def share_of(shares: Sequence[float], capacity: float) -> float:
    """Return the share of the numbers that a device of a capacity is sent."""
    budget = capacity**2
    return max((share for share in shares if share <= budget + 1e-9), default=budget)


def sends(model: Architecture, hyper: FlexFLHyperparameters) -> Declaration:
    """Declare the units that were sent, and once the zeros of each hidden layer."""
    zeros = dense((max(1, hidden_layers(model)),), optional=True, exact=True)
    return {**sliced_model(model, hyper), APOZ: zeros}


def check(hyper: FlexFLHyperparameters, rounds: int) -> None:
    """Raise a ConfigError where the pool is none."""
    hyper.shares()


def cost(hyper: FlexFLHyperparameters, epochs: int) -> Cost:
    """Training of a whole device, and the mean forward pass of the smaller models."""
    smaller = [share for share in hyper.shares() if share < 1]
    taught = sum(smaller) / 3 if hyper.gamma else 0.0
    return Cost(epochs * (1 + taught))


CARD = slice_card(
    name="flexfl",
    idea="weak devices train sub-models; layers with more inactive units are narrower; on "
    "each device, smaller models teach larger ones",
    paper="Chen et al., FlexFL: Heterogeneous Federated Learning via APoZ-Guided Flexible Pruning "
    "in Uncertain Scenarios, IEEE TCAD 2024",
    learner="fedsub_papers.client.methods.flexfl:FlexFLLearner",
    strategy="fedsub_papers.strategies.methods.flexfl:FlexFLServer",
    hyperparameters=FlexFLHyperparameters,
    sends=sends,
    receives=sends,
    check=check,
    cost=cost,
    up="the units that were sent, trained; once the share of zeros of each hidden layer",
    down="the first units of each hidden layer; everybody's shares of zeros",
    privacy=f"{SEES_SUB_MODELS} Of who trains in the first round it sees how often each hidden "
    "layer is silent on the person's samples, one number a layer.",
    choose="Some devices cannot hold the model, and layers differ in how many of their units "
    "are active. Training also costs forward passes of the smaller models.",
    decisions=(
        "The code trains for 100 epochs on most of the test set to learn how often each layer's "
        "outputs are 0. Here the first round is for that. Devices that hold the whole model train "
        "it, and report the share of zeros in each hidden layer's outputs; the mean is weighted "
        "by samples. If no device of the round holds the whole model, those that were drawn train "
        "it this once, and the metric over_budget says how much more that is than they can hold.",
        "A device of capacity c receives the largest model of the pool with at most c * c of the "
        "numbers. If all models of the pool are larger, it receives a model with c * c of the "
        "numbers, and no smaller model teaches it. The code lets models be larger by 0.05 of all "
        "numbers, which is 1.8 times the budget at c = 1/4.",
        "The code sends three of the five models, drawn again each round, and a device with too "
        "little memory uses a smaller one. Here a device has stated its capacity, and gets the "
        "model that fits.",
        "The smaller models that teach are parts of the model in training, and constants, as in "
        "the code. The loss is KL(smaller || trained) at a temperature, its mean over samples and "
        "classes.",
        "A device's state has the full model's shapes, because the widths of its layers are "
        "learnt in the first round. What it trains and sends is small.",
        "In a module, a unit's output is taken as the layers behind it read it, and 0 or less "
        "counts as zero. The size of a hidden layer is that of all layers that make its units.",
    ),
)
