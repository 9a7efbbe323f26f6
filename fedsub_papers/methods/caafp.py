"""CA-AFP: groups of people as FedCHAR finds them, and one mask for each group."""

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.method_parts.phases import group_count, phase, require_within
from fedsub_core.methods.card import Cost, MethodCard, ReceivedHyperparameters
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, dense
from fedsub_papers.methods.sparse import sparse_model, sparse_model_and_gradients

#: Names of what travels beside the model.
LABELS = "labels"


@dataclass(frozen=True)
class CAAFPHyperparameters(ReceivedHyperparameters):
    """Defaults of the successor: 15 rounds together, 15 in dense groups, 20 sparse of 50."""

    schedule: str = choice(
        "iterative",
        "one-shot",
        doc="whether masks change during the last phase, or are made once, at the end",
    )
    cluster_round: int = option(
        0,
        "round after which people are divided into groups; 0 = after 0.3 of the run's rounds "
        "(one-shot: 0.25)",
        minimum=0,
    )
    dense_rounds: int = option(
        0, "rounds in dense groups before pruning; 0 = 0.3 of the run's", minimum=0
    )
    adjust_every: int = option(5, "rounds between two changes of the masks", minimum=1)
    k_selection: str = group_count("fixed:3")
    linkage: str = choice(
        "average", "complete", "single", doc="how the distance of two groups is computed"
    )
    sparsity: str = option(
        "adaptive",
        "share of zeros in each layer's weights: adaptive (by the group's labels and size) or "
        "fixed:S",
        pattern=r"adaptive|fixed:0(\.[0-9]+)?",
        like="adaptive or fixed:S, such as fixed:0.5",
    )
    pruned_layers: int = option(
        0, "layers with units that are pruned: the last N, or with -N all but those; 0 = all"
    )
    magnitude: float = option(0.5, "weight of |w| in the score", minimum=0)
    coherence_weight: float = option(
        0.25, "weight of the members' similarity in the score", minimum=0
    )
    consistency: float = option(0.25, "weight of gradients' agreement in the score", minimum=0)
    coherence: str = choice(
        "plain",
        "relative",
        doc="use the members' variance as it is, or divided by its layer's mean",
    )
    label_counts: bool = option(
        False, "send each person's number of samples of each class, once; people agreed to this"
    )
    members_per_round: int = option(
        0,
        "people drawn of each group in a round once there are groups; 0 = as clients-per-round has",
        minimum=0,
    )
    finetune_epochs: int = option(3, "epochs of fine-tuning in the last round", minimum=0)
    finetune_masked: bool = option(True, "fine-tuning keeps the mask")
    drawn_pull: float = option(
        0.0,
        "weight of the pull to a model that is drawn for each person and never trained; the "
        "successor's code has 0.01",
        minimum=0,
    )

    @property
    def fixed_sparsity(self) -> float | None:
        """The sparsity asked for, None where it follows from the group."""
        _, colon, number = self.sparsity.partition(":")
        return float(number) if colon else None


def divides_in(hyper: CAAFPHyperparameters, rounds: int) -> int:
    """Return the round after whose uploads people are divided."""
    return phase(hyper.cluster_round, rounds, 0.25 if hyper.schedule == "one-shot" else 0.3)


def dense_rounds(hyper: CAAFPHyperparameters, rounds: int) -> int:
    """Return how many rounds groups train densely before masks move; in a short run none."""
    return hyper.dense_rounds or int(0.3 * rounds)


def adjustments(hyper: CAAFPHyperparameters, rounds: int) -> range:
    """Return the rounds after which masks move; one-shot: the last round alone."""
    if hyper.schedule == "one-shot":
        return range(rounds, rounds + 1)
    first = divides_in(hyper, rounds) + dense_rounds(hyper, rounds) + 1
    if not (hyper.cluster_round or hyper.dense_rounds):
        first = min(first, rounds)
    return range(first, rounds + 1, hyper.adjust_every)


def check(hyper: CAAFPHyperparameters, rounds: int) -> None:
    """Refuse phases that end after the run."""
    require_within("caafp", "cluster-round", divides_in(hyper, rounds), rounds)
    if hyper.schedule == "iterative" and not adjustments(hyper, rounds):
        raise ConfigError(
            f"caafp.dense-rounds: got phases of {divides_in(hyper, rounds)} and "
            f"{dense_rounds(hyper, rounds)} rounds of {rounds}, expected that one is "
            "left for pruning. Lower cluster-round or dense-rounds, or raise rounds"
        )


def pruned(model: Architecture, hyper: CAAFPHyperparameters) -> tuple[str, ...]:
    """Return the names of the parameters that may be pruned.

    Raises ConfigError if `pruned-layers` names as many layers as the model has, or more.
    """
    if not (layers := hyper.pruned_layers):
        return tuple(model.parameter_shapes)
    last = model.parameters_of(model.head(abs(layers)))
    return last if layers > 0 else tuple(n for n in model.parameter_shapes if n not in last)


def sends(model: Architecture, hyper: CAAFPHyperparameters) -> Declaration:
    """Return the sparse model, in some rounds gradients, and once label counts if agreed to."""
    pruned(model, hyper)  # refused at the start, not in the round that prunes
    counts = {LABELS: dense((model.classes,), optional=True, exact=True)}
    return {**sparse_model_and_gradients(model, hyper), **(counts if hyper.label_counts else {})}


def cost(hyper: CAAFPHyperparameters, epochs: int) -> Cost:
    """Return FedAvg's: the arithmetic is dense, whatever the mask."""
    return Cost(epochs)


CARD = MethodCard(
    name="caafp",
    idea="people are grouped by their updates; each group has a sparse model with a mask of "
    "its own",
    paper="CA-AFP: Cluster-Aware Adaptive Federated Pruning, report, and its successor "
    "arXiv 2603.01739, 2026",
    learner="fedsub_papers.client.methods.caafp:CAAFPLearner",
    strategy="fedsub_papers.strategies.methods.caafp:CAAFPServer",
    hyperparameters=CAAFPHyperparameters,
    up="the weights that are not masked out and their mask; when masks move also all gradients",
    down="the group's weights that are not masked out and their mask",
    sends=sends,
    receives=sparse_model,
    cost=cost,
    fixes_rounds=lambda hyper: True,
    check=check,
    choose="People fall into a few clear types, and devices are small: the final model has a "
    "third to half of its weights.",
    privacy="The server sees each person's model after training, who is like whom, and when masks "
    "move the gradient of one batch. It sees how many samples of each class a person has only "
    "with label-counts = true. Other devices see means over a group; of a group of two, each can "
    "work out the other's model.",
    decisions=(
        "The similarity of a group's members is the variance of the weights that they sent last. "
        "The report computes it from personal models, each with its own random start, some of "
        "them never trained; the successor never trains them. There the similarity is noise, and "
        "the pull to personal models moves a group's model to random weights.",
        "So personal models have no use here, and are not kept. drawn-pull pulls to such a start.",
        "coherence = plain is that of the publications. Variances are below 0.01, so it changes "
        "scores by at most 0.0025, while magnitude has 0.5. relative divides by the layer's mean "
        "variance.",
        "Fine-tuning keeps the mask. Both authors' codes drop it, so they test dense models and "
        "print the sparsity of another model (finetune-masked = false does the same).",
        "All layers with weights are pruned; the report prunes two dense layers, 4.2 % of the "
        "model (pruned-layers = 2). Sparsity is reported over weights and over all numbers.",
        "Label counts leave a device once, when people are divided into groups, and only if asked "
        "for. Without them a group's entropy counts as the largest possible one, so every group's "
        "target is one half.",
        "At the first change of its mask, a group's sparsity becomes 0.7 at once (with fixed:S it "
        "becomes S), even if no other change follows.",
        "If no member of a group was drawn for the round in which masks change, the group's mask "
        "stays until the next change.",
        "A change cannot grow weights that it has just pruned. New weights start at 0. A change "
        "replaces no more weights than were masked out before it.",
        "Means are weighted by samples. K is given, as in both publications; if it is not known, "
        "use silhouette.",
        "Devices train with the run's optimiser, by default SGD, and not with Adam.",
        "clients-per-round are drawn of all people. The report draws four of each group once there "
        "are groups (members-per-round = 4). People without a group are then all asked.",
        "A run that is shorter than the phases is refused.",
        "Masks change after the first round of the last phase, and then every adjust-every rounds.",
        "A person who first uploads after the division joins the group with the nearest mean "
        "update.",
        "In the last round, an evaluation also costs the epochs of fine-tuning.",
    ),
    errors=(
        "The report trains with Adam, by which the last layer's weights to absent classes grow "
        "larger than those to the classes that a group has. A score by magnitude then prunes the "
        "latter, and with masks held a group of two classes may name one of them alone. The report "
        "fine-tunes without the mask, which brings the weights back (finetune-masked = false); "
        "pruned-layers = -1 keeps the last layer whole.",
        "In the report's schedule (one-shot) the consistency is 1. If the members of a group are "
        "also equal, the score is that of magnitude pruning.",
        "The report's groups are those that the clustering found, not the three true types. The "
        "sparsity that it prints, 60.6 %, needs a group of five.",
        "The report's 100 rounds are an argument that the code never reads: it runs 40 rounds, "
        "FedCHAR 50.",
        "By the successor's rule, every change first prunes a group back to 0.7 if its sparsity "
        "is below 0.69, so a lower target is never reached. Here this happens only to a layer "
        "that is still dense.",
        "The successor's code always prunes to 0.7, whatever its formula says (sparsity = "
        "fixed:0.7 does the same).",
    ),
)
