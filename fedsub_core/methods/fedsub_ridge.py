"""FedSub in closed form: heads solved from sums, and mixed by leave-one-out at every person's."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fedsub_core.addends import Sums
from fedsub_core.closed_form.grids import PRIOR, STRETCHES, packed
from fedsub_core.errors import ConfigError
from fedsub_core.method_parts.ridge_tensors import (
    CROSS,
    EQUATIONS,
    GRAM,
    SHIFTS,
    equations,
    receives,
)
from fedsub_core.methods.card import Cost, Hyperparameters, MethodCard
from fedsub_core.methods.card_parts import Training, WeakDevices
from fedsub_core.methods.fedsub_ridge_decisions import DECISIONS
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, dense, whole

#: Of so many features sums take half a GiB to solve, and 64 MiB to send.
MOST_FEATURES = 2**13


@dataclass(frozen=True)
class FedSubRidgeHyperparameters(Hyperparameters):
    """No paper's: leave-one-out chooses all else at every person's."""

    heads: str = choice(
        "mixed",
        "own",
        "everybody",
        doc="mixed; or what it is held against: heads of own samples alone, or of everybody's sums "
        "without a weight of one's own",
    )
    groups: str = choice(
        "none",
        "clusters",
        "class",
        "nearest",
        doc="whose sums are a further candidate beside one's own and everybody's: those of one's "
        "cluster, for each class of its own cluster, of the nearest people",
    )
    cluster_count: int = option(3, "into how many clusters people are divided", minimum=1)
    near: int = option(8, "how many people are the nearest, oneself included", minimum=1)
    prior: float = option(
        PRIOR, "as how many of one's own samples everybody's equations count", minimum=0
    )
    stretches: int = option(
        STRETCHES,
        "into how many stretches of time each class's samples are cut, one of which is left out at "
        "once; 0: single samples are, which their neighbours give away where windows overlap",
        minimum=0,
    )
    open_classes: str = choice(
        "on",
        "off",
        doc="on: classes that a person has no sample of are everybody's, by the odds that the "
        "person does them (with noise: all that are clear of it, without odds); off: these are not "
        "answered",
    )
    forgetting: float = option(
        1.0,
        "how much a sample counts of what the next newer one of its class does; below 1 where what "
        "people do drifts",
        above=0,
        maximum=1,
    )
    noise: float = option(
        0.0,
        "deviation of the Gaussian noise on sums that leave the server, over how far one sample "
        "moves plain sums at most; nothing else is then pooled. 0: none",
        minimum=0,
    )
    noise_delta: float = option(1e-5, "delta at which epsilon is reported", above=0, below=1)


def check(hyper: FedSubRidgeHyperparameters, rounds: int) -> None:
    """Refuse noise where nobody counts what it costs: on sums of groups, or that fade."""
    if hyper.noise and hyper.forgetting < 1:
        raise ConfigError(
            f"fedsub-ridge: noise: got {hyper.noise:g} with forgetting = {hyper.forgetting:g}, "
            "expected forgetting = 1: a sample that comes changes how much all before it count"
        )
    if hyper.noise and hyper.groups != "none":
        raise ConfigError(
            f"fedsub-ridge: noise: got {hyper.noise:g} with groups = {hyper.groups}, expected "
            "groups = none: what noise costs is counted for everybody's sums alone"
        )


def sends(model: Architecture, hyper: FedSubRidgeHyperparameters) -> Declaration:
    """Declare statistics, which are sent when samples are new, and equations, when sums are.

    Raises ConfigError where there are so many features that their products would not fit.
    """
    features = prod(model.input_shape)
    if features > MOST_FEATURES:
        to_solve, to_send = 8 * (features + 1) ** 2 / 2**30, 2 * packed(features) / 2**30
        raise ConfigError(
            f"fedsub-ridge: got {features:,} features, whose products take {to_solve:.1f} GiB to "
            f"solve and {to_send:.1f} GiB to send, expected {MOST_FEATURES:,} at most. Lower N of "
            "the encoder"
        )
    return {
        GRAM: whole((packed(features),), optional=True),
        CROSS: whole((model.classes, features + 1), optional=True),
        SHIFTS: dense((features + 2,), optional=True, exact=True),
        EQUATIONS: dense((equations(hyper),), optional=True, exact=True),
    }


def refused_in_sums(hyper: FedSubRidgeHyperparameters) -> str:
    """Return the options that secure sums refuse; "": none."""
    if hyper.groups == "none":
        return ""
    return (
        f"fedsub-ridge.groups = {hyper.groups}, which compare single people's sums, expected "
        "groups = none"
    )


def cost(hyper: FedSubRidgeHyperparameters, epochs: int) -> Cost:
    """Return the cost of sums and heads; the run's epochs do not matter."""
    return Cost(2.0)


def rule(hyper: FedSubRidgeHyperparameters, lr: float) -> str:
    """Return how heads are found: nothing is trained step by step."""
    heads = {"own": "of own samples alone", "everybody": "of everybody's sums alone"}
    mixed = "candidates of own and of everybody's sums, mixed by weights"
    out = f"{hyper.stretches} stretches of each class in turn" if hyper.stretches else "each sample"
    return (
        f"ridge regression in closed form, {heads.get(hyper.heads, mixed)}; penalty and weights "
        f"are chosen by leaving {out} out of a person's own samples"
    )


CARD = MethodCard(
    name="fedsub-ridge",
    idea="heads in closed form on fixed features: own, everybody's and one's groups', mixed as "
    "leave-one-out on one's own samples says",
    paper="Of no publication yet; sums after He et al., AFL: Single-Round Analytic Federated "
    "Learning, CVPR 2025, and Fanì et al., Fed3R, ICML 2024",
    learner="fedsub_client.methods.fedsub_ridge:FedSubRidgeLearner",
    strategy="strategies.methods.fedsub_ridge.strategy:FedSubRidgeServer",
    sums=Sums(
        learner="fedsub_client.methods.fedsub_ridge_sums:SummedRidgeLearner",
        strategy="strategies.methods.fedsub_ridge.summed:SummedRidgeServer",
        refuses=refused_in_sums,
    ),
    hyperparameters=FedSubRidgeHyperparameters,
    up="once, and when samples are new: sums of features and of their products, in 16 bits a "
    "number; when sums are new: what the candidate heads said of samples left out",
    down="when they are new: everybody's sums, one's groups', everybody's equations",
    sends=sends,
    receives=receives,
    cost=cost,
    reports=("left_out_loss",),
    check=check,
    training=Training(solves="linear", encodes=True, rule=rule),
    weak=WeakDevices("encoder"),
    filtered=False,
    choose="Samples are windows, devices are weak or seldom there, or people must be forgotten "
    "without a trace: three rounds in which all take part are enough, and no rate is to be tuned. "
    "Not where hand-made features are few and a trained body is much better. Where few samples are "
    "labelled and people never do some of the classes, open-classes = off.",
    privacy="The server sees of each person how many samples of each class there are, the mean of "
    "each class's features, and the mean products of all pairs of features: as many statistics of "
    "a person as no other method here shows. Of few samples they give back each sample's "
    "features, to the last bit (measured: of 5 always, of 20 for two people in five), and so how "
    "strong a window's signals are, and at what level. It also sees how well candidate heads do "
    "on samples left out, and a hash of all samples, which lets a guess of all of them be tested. "
    "Other devices see how many people have each class, and sums over "
    "everybody, and over their groups: of two people, each can work out the other's, and whoever "
    "gets the sums before and after one person came, went or sent anew knows that person's. Two "
    "devices of different capacity can work out the sums of those whose capacity lies between. "
    "Models stay at home. With secure-aggregation the server sees sums over secure-least people or "
    "more alone, in all and of each class, and no hash.",
    decisions=DECISIONS,
    regression=True,
)
