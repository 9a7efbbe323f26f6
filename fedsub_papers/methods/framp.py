"""FRAMP: a network on the server makes each person's model, of which devices hold what they can."""

from dataclasses import dataclass

from fedsub_core.method_parts.prototypes import received_prototypes, sent_prototypes, weights
from fedsub_core.methods.card import Cost, MethodCard
from fedsub_core.methods.card_parts import WeakDevices
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, dense
from fedsub_papers.methods.elements import DECISIONS, ElementHyperparameters, element_model

#: What a person's data are like, as they are sent once; and in a download that it is asked for.
DESCRIPTOR, WANTED = "descriptor", "wanted"
#: Kinds of descriptors that a device makes of its samples, and sends.
OF_SAMPLES = ("features", "trained")


@dataclass(frozen=True)
class FRAMPHyperparameters(ElementHyperparameters):
    """The paper's, for CIFAR-10."""

    lam: float = option(0.7, "weight of the pull of class means to the prototypes", minimum=0)
    beta: float = option(0.12, "learning rate of the network that generates models", above=0)
    weights: str = weights()
    descriptor: str = choice(
        "features",
        "trained",
        "drawn",
        "one-hot",
        "none",
        doc="what a person's model is generated from: means of random features of the "
        "person's samples, of features that the device trains, numbers drawn for the person, the "
        "person's index (one-hot), or nothing, which gives one model for all",
    )
    descriptor_every: int = option(
        0, "number of rounds after which descriptors are computed again; 0: never", minimum=0
    )
    descriptor_noise: float = option(
        0.0,
        "length of the noise on each descriptor, relative to the descriptor's length",
        minimum=0,
    )
    descriptor_rotation: float = option(
        0.0,
        "degrees by which each descriptor is rotated, in a direction of its own",
        minimum=0,
        maximum=180,
    )
    prototype_noise: float = option(
        0.0,
        "standard deviation of the noise on each number of a prototype that a device sends, "
        "relative to the prototype's length",
        minimum=0,
    )
    prototype_rotation: bool = option(
        False, "rotate all prototypes that devices send by one random orthogonal matrix"
    )
    freeze_after: int = option(
        0,
        "rounds after which the network and the prototypes stay as they are, and people who come "
        "are described alone; 0: never",
        minimum=0,
    )
    size: int = option(128, "length of a descriptor", minimum=1)
    hidden: int = option(100, "hidden units of the network that generates models", minimum=1)


def sends(model: Architecture, hyper: FRAMPHyperparameters) -> Declaration:
    """Declare the numbers that a device holds, its prototypes, and once its descriptor."""
    declared = {**element_model(model, hyper), **sent_prototypes(model, hyper)}
    if hyper.descriptor in OF_SAMPLES:
        declared[DESCRIPTOR] = dense((hyper.size,), optional=True, exact=True)
    return declared


def receives(model: Architecture, hyper: FRAMPHyperparameters) -> Declaration:
    """Declare the numbers that a device holds, prototypes, and whether its descriptor is asked."""
    declared = {**element_model(model, hyper), **received_prototypes(model, hyper)}
    if hyper.descriptor in OF_SAMPLES:
        declared[WANTED] = dense((1,), optional=True, exact=True)
    return declared


def cost(hyper: FRAMPHyperparameters, epochs: int) -> Cost:
    """Training, and one forward pass for the prototypes."""
    return Cost(epochs + 0.33)


CARD = MethodCard(
    name="framp",
    idea="a network on the server generates each person's model from a descriptor of the "
    "data; weak devices train its largest numbers; class means are pulled to everybody's",
    paper="Representation-Aligned Multi-Scale Personalization for Federated Learning, anonymous, "
    "under review",
    learner="fedsub_papers.client.methods.framp:FRAMPLearner",
    strategy="fedsub_papers.strategies.methods.framp:FRAMPServer",
    hyperparameters=FRAMPHyperparameters,
    up="the numbers that the device holds, and which; the mean embedding of each class held; once "
    "the descriptor",
    down="the numbers that the device holds, and which; the means of these means",
    sends=sends,
    receives=receives,
    cost=cost,
    weak=WeakDevices("elements", resizes=True),
    choose="People and devices differ, and few bytes may travel: everybody receives a model "
    "of their own. The server needs 100 times the model's memory.",
    privacy="The server sees each person's model after training, its mean embedding of every class "
    "and so which classes it has, and once the means of 128 random features of its samples: all "
    "are statistics of a person. Other devices see means of embeddings over people; where a single "
    "person has a class, that mean is that person's own.",
    decisions=(
        *DECISIONS,
        "A device sends its descriptor with an upload, in a round in which the server asks for "
        "it. The handshake cannot carry it, because it does not depend on the method. Until the "
        "server has the descriptor, it generates the person's model from the mean descriptor: in "
        "everybody's first round, and in the first round of people who join late.",
        "The means of random features are nearly equal for all people. So the server subtracts "
        "from each feature the first round's median over people, divides by the median distance "
        "from it (times 1.48), and clips the result to between -3 and 3. The metric "
        "descriptor_spread says how far apart people's descriptors are.",
        "The network has one layer of 100 hidden units with ReLU, and one linear layer for each "
        "tensor: 7.0 million numbers for an mlp of 70 thousand. At the start, the mean "
        "descriptor's model is the common start, and the models of other descriptors are near it.",
        "All clients' steps have the same weight; they are not weighted by samples (eq. 5). clip "
        "bounds what each client adds to the network, over all numbers and among the holders of a "
        "number. It also bounds the round's step: the median person's model moves no farther than "
        "the median device moved its own. Without these bounds (robust = none, as in the paper) "
        "steps overshoot, and one hostile device made them grow until the run ended. multi-krum "
        "compares clients by how their numbers moved. trimmed-mean and median leave no client out "
        "of a number's mean: they move the values that they would cut to the nearest one that "
        "they keep.",
        "The pull is a loss on each class of a batch: the mean squared difference of the class's "
        "mean embedding in the batch from its prototype. It is summed over the classes of the "
        "batch. With class means over all samples it would have no gradient. Classes without a "
        "prototype are left out, so the first round has no pull.",
        "Prototypes have the same weight for each client. Classes that nobody sends keep their "
        "last mean.",
        "The paper's ablations are options. lam = 0 aligns nothing. descriptor = none generates "
        "one model for all. scope = layer is the layer-wise mask. descriptor-every = 10 asks for "
        "descriptors again; their centre and scale stay those of the first round.",
        "descriptor = one-hot gives each person an index when the person first trains. Its vector "
        "is as long as the usual descriptor. There are as many indexes as size; people who come "
        "later have the mean descriptor's model. descriptor = drawn says as little about the "
        "data, and does not limit the number of people. The paper's mask made by a network is left "
        "out.",
        "descriptor = trained is the paper's trainable feature extractor, of which it says no "
        "more: the random features of all people begin alike, each device trains its own, below "
        "a linear classifier, for a round's epochs each time that its descriptor is asked for.",
        "prototype-noise and prototype-rotation are the paper's perturbations of prototypes "
        "(D.6). Noise is drawn anew each round. One matrix, of the run's seed, rotates everybody's "
        "prototypes: with one for each person their mean would say nothing.",
        "descriptor-noise and descriptor-rotation, which the paper does not have, disturb each "
        "person's descriptor, after it is centred and scaled, once for the whole run. This shows "
        "how much a personal model depends on it.",
        "A model of a size that no device has (option sizes) is generated from the mean "
        "descriptor.",
        "A person who joins late trains the network like all others. The paper freezes it then: "
        "freeze-after.",
        "Running statistics of norms are averaged over everybody, although models differ; norm = "
        "local or static fits better.",
    ),
    errors=(
        "The paper's step of the network, phi - beta J^T delta with delta = after - before, has "
        "the wrong sign: it moves models away from what clients trained. Here it has the other "
        "sign.",
    ),
)
