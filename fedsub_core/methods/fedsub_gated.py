"""FedSub with several models a person, a federated gate between them, and open classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.methods import fedsub
from fedsub_core.methods.card import Cost, MethodCard, smooth
from fedsub_core.methods.fedsub import SHARES, WEAK_DEVICES, SubnetworkHyperparameters
from fedsub_core.methods.parts import head_cost
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, dense

#: The experts that a person's mixture may have. Trained alone; with a pull, or a strong one, to the
#: common model; the common model, whose embedding is used, too, and which knows classes that the
#: person lacks; the nearest of the person's class means in that embedding; a head of the person's
#: own on the common model's body.
LOCAL, PULLED, STRONG, FUSED, NEAREST, HEAD = EXPERTS = (
    "local",
    "pulled",
    "strong",
    "fused",
    "nearest",
    "head",
)
#: What travels beside FedSub's tensors; before an expert's name, its weight as devices report it.
GATE, WEIGHT = "gate", "weight_"
#: And by how much likelier the labels that judge are if an expert's probabilities are tempered,
#: p^(1 / T) over their sum, by each of these temperatures, in nats, of which a sample counts up to
#: MOST; the T that the server chose. None is below 1: experts that are not sure enough yet become
#: so once they train on the samples that judge, too.
CURVES, TEMPERATURE, MOST = "gate.curves", "gate.temperature", 3.0
TEMPERATURES = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)


@dataclass(frozen=True)
class FedSubGatedHyperparameters(SubnetworkHyperparameters):
    """Defaults that mix people, one setting for all data."""

    relevance: str = choice(
        "naive",
        "lrp-a1b0",
        "lrp-a2b1",
        doc="how the relevance of units is computed (FedSub eq. 2, 4, 5)",
    )
    score: str = choice(
        "samples", "one", "accuracy", "accuracy-samples", doc="how much a client's row counts"
    )
    k_selection: str = option(
        "dbi-capped",
        "number of clusters: dbi, dbi-capped, silhouette or fixed:K",
        pattern=r"dbi|dbi-capped|silhouette|fixed:[1-9][0-9]*",
        like="dbi, dbi-capped, silhouette or fixed:K, such as fixed:3",
    )
    units: str = choice(
        "all",
        "selected",
        doc="hidden units that a person sends, and with which it counts in means: all, or "
        "those that matter for one of its classes",
    )
    impute: bool = option(
        True,
        "put a person who lacks a class into one of its clusters, and send them the class's row",
    )
    anneal: float = option(
        0.8,
        "share of the run over which the mean of all is replaced by the clusters' means",
        minimum=0,
    )
    restricted: bool = option(
        True, "train the fused model and `head` without logits of lacking classes"
    )
    experts: str = option(
        "local,fused,head",
        "the person's models: local (alone), pulled and strong (own, pulled to the fused one), "
        "fused (as received), nearest (class means in its embedding), head (its body, own head)",
        pattern=rf"({'|'.join(EXPERTS)})(,({'|'.join(EXPERTS)}))*",
        like=f"some of {', '.join(EXPERTS)}, with commas between them and no blanks",
    )
    pull: float = option(0.1, "weight of the pull of `pulled`", minimum=0)
    strong_pull: float = option(0.3, "weight of the pull of `strong`", minimum=0)
    head_epochs: int = option(5, "epochs of the head of `head`", minimum=1)
    head_pull: float = option(
        0.002, "weight of the pull of the head of `head` to the fused model's", minimum=0
    )
    smooth: float = smooth(0.8)
    gate_share: float = option(
        0.25,
        "share of a person's training samples on which the gate compares experts",
        above=0,
        maximum=0.5,
    )
    gate_until: float = option(
        0.4,
        "share of the run after which these samples are used for training, and no longer by "
        "the gate; a run with fewer than 1 / gate-until rounds never uses the gate",
        maximum=1,
        above=0,
    )
    alpha: float = option(
        50.0,
        "number of own samples that count as much as the weights learnt from all people",
        minimum=0,
    )
    calibrate: bool = option(True, "soften experts that are overconfident")
    prune: float = option(
        0.01,
        "drop experts, except `local`, whose common weight stays below this; 0 = none",
        minimum=0,
        below=1,
    )
    open_classes: str = choice(
        "off",
        "on",
        doc="on: the fused model's predictions of classes that the person lacks count; off: "
        "such a class is predicted only if the mixture itself does so, which is rare",
    )
    open_mass: float = option(
        1.0, "how much the fused model's predictions count for these classes", minimum=0, maximum=1
    )
    novelty: bool = option(
        True, "make this depend on the sample's distance from the person's classes"
    )


def names(hyper: Any) -> tuple[str, ...]:
    """Return the experts, in the order of the gate's weights."""
    chosen = set(hyper.experts.split(","))
    return tuple(name for name in EXPERTS if name in chosen)


def judges(hyper: Any, round: int, rounds: int) -> bool:
    """Return whether samples are held back in a round, to judge experts by."""
    return bool(round <= hyper.gate_until * rounds)


def check(hyper: FedSubGatedHyperparameters, rounds: int) -> None:
    """Refuse an expert that is named twice, and a threshold below which all could be."""
    said = hyper.experts.split(",")
    if len(set(said)) < len(said):
        raise ConfigError(
            f"fedsub-gated.experts: got {hyper.experts!r}, expected each once. Leave out the second"
        )
    if hyper.prune >= 1 / len(said):
        raise ConfigError(
            f"fedsub-gated.prune: got {hyper.prune:g}, expected below {1 / len(said):.3g} with "
            f"{len(said)} experts: else all could be dropped. Lower it"
        )


def trained(hyper: Any) -> tuple[str, ...]:
    """Return the experts that cost a training each."""
    return tuple(name for name in names(hyper) if name in (LOCAL, PULLED, STRONG))


def asks_for_means(hyper: Any) -> bool:
    """Return whether anything asks where a person's classes lie in the fused embedding."""
    novel = hyper.novelty and hyper.open_classes == "on"
    return NEAREST in names(hyper) or novel


def sends(model: Architecture, hyper: FedSubGatedHyperparameters) -> Declaration:
    """Return FedSub's tensors, each class's share in hidden units, and what the gate learns."""
    layers = model.affine[: hyper.depth or None]
    shares = {
        layer.name + SHARES: dense((model.classes, layer.units))
        for layer in layers
        if layer is not model.affine[-1]
    }
    gate = {GATE: dense((len(names(hyper)) + 1,), exact=True)}
    if hyper.calibrate:
        gate[CURVES] = dense((len(names(hyper)), len(TEMPERATURES)), exact=True)
    return {**fedsub.sends(model, hyper), **shares, **gate}


def receives(model: Architecture, hyper: FedSubGatedHyperparameters) -> Declaration:
    """Return rows to replace, and the people's weights of the experts."""
    told = dense((len(names(hyper)),), optional=True, exact=True)
    gate = {GATE: told, TEMPERATURE: told} if hyper.calibrate else {GATE: told}
    return {**fedsub.receives(model, hyper), **gate}


def cost(hyper: FedSubGatedHyperparameters, epochs: int) -> Cost:
    """Training of the fused model and each expert, relevance, and judging on the gate's part."""
    kept = 1 - hyper.gate_share * hyper.gate_until
    round = epochs * (1 + len(trained(hyper))) * kept + fedsub.cost(hyper, 0).round
    head = head_cost(hyper.head_epochs) * kept if HEAD in names(hyper) else 0.0
    # Forward passes: of the gate's part by each whole model, of all for class means.
    judging = 0.33 * hyper.gate_share * (1 + len(trained(hyper)))
    means = 0.33 * kept if asks_for_means(hyper) else 0.0
    return Cost(round + head + judging + means)


CARD = MethodCard(
    name="fedsub-gated",
    idea="a person's own mixture of three models: one trained alone, one fused with those of "
    "similar people, and an own head on the fused model's body",
    paper="This project's own, on FedSub's parts (Campana and Delmastro), Ditto's pull (Li et al. "
    "2021) and mixtures of experts by EM (Jordan and Jacobs 1994)",
    learner="fedsub_client.methods.fedsub_gated.learner:FedSubGatedLearner",
    strategy="strategies.methods.fedsub_gated.strategy:FedSubGatedStrategy",
    hyperparameters=FedSubGatedHyperparameters,
    predictor="fedsub_client.methods.fedsub_gated.mixture:Mixture",
    up="FedSub's upload, class shares of units, sums for the gate",
    down="rows to replace, weights and temperatures of the experts",
    sends=sends,
    receives=receives,
    cost=cost,
    # The fused one, those of their own, and both its head and class means are smaller than one;
    # the means of all but the latter.
    models=lambda hyper: (
        1 + len(trained(hyper)) + 2 + (hyper.smooth > 0) * (2 + len(trained(hyper)))
    ),
    reports=("training_loss", "epsilon", *[WEIGHT + name for name in EXPERTS]),
    shares={WEIGHT + name: name for name in EXPERTS},
    narrow="model",
    fixes_rounds=lambda hyper: True,
    check=check,
    choose="Nobody knows in advance whether, and how much, federation helps a person. The "
    "gate learns this on a validation part, so nobody needs to choose between local training, "
    "Ditto and a common model. Devices must be able to train several models.",
    privacy="The server sees what FedSub shows, how much each class uses each unit, and what "
    "weights the person gives its experts. With score=samples it sees how many samples of each "
    "class a person has; score=one tells nothing. For the gate it sees sums over the samples held "
    "back for each expert: what it explains, and how likely their labels are. Other devices see "
    "means over many at first, later rows fused from the people in their clusters; the output row "
    "of a class that one person alone holds, or alone in a cluster gives, reaches them as that "
    "person sent it.",
    decisions=(
        "Hidden units become (1 - a - p) own + a clusters' + p everybody's mean, each class's "
        "cluster by its share in the unit's relevance; a = (1 - q) / 2, p = q, "
        "q = max(0, 1 - (r - 1) / (0.8 R)). A class's output row is its cluster's alone, 1 - q, "
        "and q of everybody's who holds it.",
        "All hidden units are sent, as relevance says for which classes, not whether: a unit that "
        "a person's data do not use is as the person received it, and holds means back from "
        "swinging with the few who trained it. With units=selected it has no say, and takes the "
        "clusters' and everybody's mean.",
        "The own head trains for five epochs a round, with a small pull to the common one. Both "
        "were chosen on parts of the training data of six federations, as large as a run's; "
        "studies/README.md has what they give on tests.",
        "The gate's weights over all people come from one step of EM a round; a person's own are "
        "the MAP under a Dirichlet prior around them. Its strength alpha is one number: 5, 50 and "
        "500 differ by less than a point (studies/README.md). Experts are judged before "
        "temperatures.",
        "The samples that judge are each class's last, so that windows that overlap stay "
        "together; they train after gate-until of the run, and from then on tell no more than "
        "which expert explains them worse than it did. Where the last of a class overlaps the "
        "first held back, that one is judged on what it nearly saw.",
        "Who joins late, or is drawn late where few are asked in a round, starts all models from "
        "everybody's mean, `local` too: what is said of its gain is over that model trained on "
        "alone, which until gate-until has not seen the samples held back. Who comes after "
        "gate-until judges nothing: it has the people's weights to the end.",
        "Where few are asked in a round, the people's weights move by the share that was asked "
        "(stepwise EM): drawn anew from one or two people, they would drop experts by chance.",
        "The fused model is used as it was received, so that a round needs no message of its own "
        "to be tested.",
        "The head is trained without logits of classes that the person lacks, and has the fused "
        "model's rows for them, so that a class which comes is known in its first round; it does "
        "not answer classes that the person lacks.",
        "What predicts is a mean of each expert's models over about five rounds; judged are the "
        "models of the round. At constant rates they swing around where they should be: on "
        "validation parts of four federations, at the rates chosen there, the mean had 1 to 4 % "
        "less loss in 8 of 8 runs, macro F1 0.4 points more; at a quarter of these, 1 % more loss. "
        "Training goes on from the last models, and gains over `local` are over its last one. "
        "Means of who gets a class start anew: what was before knows nothing of it.",
        "Each expert has one temperature for all people, the one under which the samples held back "
        "are likeliest; devices send sums of bounded numbers, and a liar who makes all "
        "probabilities too sharp or too soft changes no expert's answer.",
        "Open classes: that the fused model's odds count by their root, and how far from the "
        "person's classes a sample must be, was read off the tests of UCI HAR and WISDM; "
        "studies/README.md has federations that it was not read off.",
        "kNN in the fused embedding is the nearest class mean instead: a device need not keep or "
        "export its samples.",
        *WEAK_DEVICES,
        "All experts of a weak device are as small as it can hold; `local`, with which nothing is "
        "fused, begins as a model of that size does, the others as units of the whole. "
        "Everybody's mean of a number, too, is one over those who hold it. The gate's weights and "
        "temperatures are one for people of all capacities.",
    ),
)
