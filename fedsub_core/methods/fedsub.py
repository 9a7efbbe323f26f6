"""FedSub: prototypes, class-aware subnetworks and scores up, a sparse update of one's own down."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from fedsub_core.addends import Sums
from fedsub_core.methods.card import Cost, Hyperparameters, MethodCard
from fedsub_core.methods.card_parts import WeakDevices
from fedsub_core.methods.fedsub_sums import (
    adds_units,
    receives_in_sums,
    refused_in_sums,
)
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, bits, dense, rows

RELEVANCE_RULES = ("naive", "lrp-a1b0", "lrp-a2b1")
LRP_STARTS = ("logits", "target")
SCORES = ("one", "samples", "accuracy", "accuracy-samples")
FUSIONS = ("overlapping", "overlapping-any", "overlapping-additive", "leadership", "avg")
READINGS = ("own", "held")
PROTOTYPE_FEATURES = ("input", "embedding")
PROTOTYPE_NOISES = ("none", "gaussian", "laplace")

#: Delta at which the epsilon of noise on prototypes is reported, unless another is asked for.
PROTOTYPE_DELTA = 1e-5

#: Names of what travels beside a layer's rows, which go by the layer's name.
CLASSES, SCORE, PROTOTYPES, MASKS = "classes", "scores", "prototypes", ".masks"
#: Each class's share in its units' relevance; of methods that fuse by it.
SHARES = ".shares"


def cluster_count(default: str, doc: str) -> Any:
    """Return the hyperparameter that says how many clusters a class has."""
    return option(
        default,
        f"number of clusters: {doc}",
        pattern=r"dbi|dbi-capped|silhouette|fixed:[1-9][0-9]*",
        like="dbi, dbi-capped, silhouette or fixed:K, such as fixed:3",
    )


@dataclass(frozen=True)
class PrototypeHyperparameters(Hyperparameters):
    """Hyperparameters of prototypes, by which people are compared."""

    prototype: str = choice(*PROTOTYPE_FEATURES, doc="features whose class mean is the prototype")
    prototype_noise: str = choice(*PROTOTYPE_NOISES, doc="differentially private prototypes")
    prototype_clip: float = option(
        0.0, "clip prototypes to this L2 (laplace: L1) norm before noise", minimum=0.0
    )
    prototype_sigma: float = option(
        0.0, "standard deviation of the noise on each feature of a prototype", minimum=0.0
    )


@dataclass(frozen=True)
class FedSubHyperparameters(PrototypeHyperparameters):
    """FedSub's hyperparameters, defaults of the journal version but for `relevance_samples`."""

    prototype_delta: float = option(
        PROTOTYPE_DELTA, "delta at which epsilon is reported", above=0, below=1
    )
    relevance: str = choice(
        "lrp-a2b1", "lrp-a1b0", "naive", doc="how the relevance of units is computed (eq. 2, 4, 5)"
    )
    relevance_samples: int = option(
        4,
        "largest number of a class's samples from which relevance is computed; 0 = all, as "
        "in the papers",
        minimum=0,
    )
    lrp_start: str = choice(*LRP_STARTS, doc="outputs from which relevance starts")
    score: str = choice(*SCORES, doc="omega: how much a client's subnetwork counts in a cluster")
    k_selection: str = cluster_count("dbi", "dbi (the paper), dbi-capped, silhouette or fixed:K")
    depth: int = option(0, "share only the first L layers; 0 = all (full)", minimum=0)
    impute: bool = option(False, "predict prototypes of classes a client lacks (first version)")
    impute_neighbours: int = option(
        5, "number of most similar clients from which a prototype is predicted", minimum=1
    )
    fusion: str = choice(*FUSIONS, doc="how a cluster's subnetworks are fused (eq. 6-10)")
    fusion_reading: str = choice(
        *READINGS,
        doc="avg, leadership: an unselected unit counts as the person's own row (own), or not at "
        "all (held)",
    )


def prototype_size(model: Architecture, hyper: Any) -> int:
    """Return the number of a prototype's features: a sample's, or the last hidden layer's."""
    embedding = hyper.prototype == "embedding"
    return model.embedding_size if embedding else prod(model.input_shape)


def sends(model: Architecture, hyper: Any) -> Declaration:
    """Declare the tensors of an upload: see ``docs/wire-format.md``.

    A layer's tensor holds rows, ``[units, fan_in + 1]``: a unit's weights and its bias side by
    side. All classes of a client share one set of rows, so a class's subnetwork is a mask over
    them.
    """
    declared = {
        CLASSES: bits((model.classes,)),
        SCORE: dense((model.classes,), exact=True),
        PROTOTYPES: rows((model.classes, prototype_size(model, hyper)), optional=True),
    }
    for layer in model.affine[: hyper.depth or None]:
        declared |= {own.name: rows((layer.units, own.width)) for own in layer.rows}
        declared[layer.name + MASKS] = bits((model.classes, layer.units))
    return declared


def receives(model: Architecture, hyper: Any) -> Declaration:
    """Declare the tensors of a download: rows to replace, of layers that have some."""
    return {
        own.name: rows((layer.units, own.width), optional=True)
        for layer in model.affine[: hyper.depth or None]
        for own in layer.rows
    }


def cost(hyper: Any, epochs: int) -> Cost:
    """Training, and one pass for relevance, which of few samples of a class is next to nothing."""
    passes = {"naive": 0.33, "lrp-a1b0": 1.0, "lrp-a2b1": 1.33}
    return Cost(epochs + (0 if hyper.relevance_samples else passes[hyper.relevance]))


#: Decisions of no paper: what a weak device does, of both methods that fuse subnetworks.
WEAK_DEVICES = (
    "A weak device has the first units of each hidden layer, and starts with these units of "
    "the run's first model. It computes the relevance of its units in its own small model. "
    "Other people's further units are unknown to it, do not count, and are never sent to it.",
    "Rows are fused number by number, among the people who have the number. Their clusters "
    "and scores count as if there were no other people, so a missing number never counts as 0 "
    "in a mean. In a weak person's row, the numbers that read missing units do not take part. "
    "Clusters are formed over all people, because prototypes of the input have the same "
    "length for all. For embeddings, clusters compare the units that all people have, except "
    "for a share of people (robust-share, with clip). Where these lack a unit, they count as "
    "the mean of the others. So a device that claims to hold almost nothing cannot remove the "
    "numbers by which people are compared.",
    "A row is sent completely. If nothing is known of some of its numbers, they stay the "
    "person's own. A person who did not select the unit, and whose own row the server does "
    "not know, does not get the row in this case.",
)


def receives_too(model: Architecture, hyper: FedSubHyperparameters) -> Declaration:
    """Declare the tensors of a download, and those that a server of secure sums adds."""
    return {**receives(model, hyper), **receives_in_sums(hyper, adds_units(model, hyper))}


CARD = MethodCard(
    name="fedsub",
    idea="class by class, the units of a person's model are fused with those of similar people",
    paper="Campana and Delmastro, FedSub: Introducing Class-aware Subnetworks Fusion to "
    "Enhance Personalized Federated Learning",
    learner="fedsub_client.methods.fedsub.learner:FedSubLearner",
    strategy="strategies.methods.fedsub.strategy:FedSubServer",
    sums=Sums(
        learner="fedsub_client.methods.fedsub.summed:SummedFedSubLearner",
        strategy="strategies.methods.fedsub.summed:SummedFedSubServer",
        refuses=refused_in_sums,
        adds=adds_units,
    ),
    hyperparameters=FedSubHyperparameters,
    up="selected rows, class masks, scores, prototypes",
    down="rows to replace",
    sends=sends,
    receives=receives_too,
    cost=cost,
    weak=WeakDevices("model"),
    reports=("training_loss", "epsilon"),
    choose="People are similar in some activities and not in others, and everybody wants a "
    "model of their own. With the defaults, which are the paper's, its results equal local "
    "training. For clusters that really mix people, set k-selection = dbi-capped and fusion = "
    "overlapping-any.",
    privacy="For each class, the server sees which units matter to a person, their rows, a "
    "score and the prototype. With score = samples, the score is the number of the person's "
    "samples of the class. With prototype = input, the prototype is the exact mean of these "
    "samples (prototype-noise adds noise). Other devices see rows fused from the people in "
    "their clusters. In a cluster of two, each person can compute the other's rows, and "
    "fusion = leadership passes on one person's rows unchanged. With secure-aggregation, "
    "k-selection = fixed:1 and fusion = avg, the server sees only sums over enough people "
    "(docs/privacy.md).",
    decisions=(
        "The papers give no learning rate or batch size; the run's defaults are used.",
        "A prototype is the class's mean of the standardised input, or with prototype = "
        "embedding of the last hidden layer. It is sent when the data have changed.",
        "Relevance starts from the ReLU of all logits; with lrp-start = target, from the true "
        "class only. In the papers' encoding lrp-a2b1 then sends 1.9 models in either case, "
        "as they report.",
        "The denominators of LRP include biases, and are stabilised. Inputs have signs, so "
        "the first layer uses both signs of a product.",
        "Relevance is computed from at most four samples of each class, where the papers take "
        "all (relevance-samples = 0). They are spread evenly over the class, in the order of the "
        "file. A round costs less, and macro F1 is not lower by more than chance "
        "(benchmarks/README.md).",
        "All classes of a person share one set of rows: their union is sent once, with a mask "
        "for each class. The papers send each class's rows separately. A run's metrics have "
        "both sizes.",
        "In a torch module a unit also owns its numbers in the norm right after its layer; "
        "LRP merges both into one layer. Attention, other norms and everything else stay on "
        "the device. LRP refuses layers without a rule; naive works with any layer "
        "(docs/models.md).",
        "A fused 0 means that the device keeps its own weight. The > 0 in eq. 10 is read as "
        '"is selected", because weights may be negative.',
        "overlapping-any is this project's: the mean over those of a person's clusters that "
        "have the unit. overlapping-additive and impute come from the paper's first version.",
        "leadership and avg (eq. 6-8) leave open how a unit counts that a member did not "
        "select. Of four readings that were tried, fusion-reading = own comes nearest to the "
        "paper's figures. Members without the unit do not count. The person's own row is used for "
        "clusters without the unit, and for classes for which the person did not select it. Eq. 9 "
        "and 10 define this, so overlapping has only one reading.",
        "With secure-aggregation, one mean of a unit is over all people who use it, once for "
        "each of their classes that uses it. Means of each class would differ in few people, and "
        "tell their rows. Rows come from the third round on.",
        *WEAK_DEVICES,
    ),
    errors=(
        "The paper's rule for K is the smallest Davies-Bouldin index for up to n - 1 "
        "clusters. It leaves nearly everybody alone (31 clusters for 31 to 32 people on "
        "WISDM, 14 for 15 on WESAD), so FedSub equals local training to the third digit. It "
        "is the default, as in the paper; the alternatives are dbi-capped, silhouette and "
        "fixed:K.",
        "Eq. 7 and 8 as printed count units that a class did not select as 0, so rows shrink from "
        "round to round. Read so, avg and leadership reached 0.378 and 0.397 macro F1 on WISDM "
        "(300 rounds); the paper reports 0.79 and 0.86. No reading gives both, and this one is no "
        "option any more (studies/README.md). If clusters mix people (dbi-capped), leadership "
        "reaches 0.777 (own) and 0.741 (held), avg 0.775 (own) and 0.717 (held). With dbi nearly "
        "everybody is alone, so with own both equal local training: 0.828 and 0.832 (local "
        "0.833).",
        "The papers' split draws windows at random, which leaks if windows overlap; split = "
        "blocked does not leak (docs/data.md).",
    ),
)
