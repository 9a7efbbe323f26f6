"""What a person's mixture is made of: its experts, and hyperparameters of how they are mixed.

Whether, and when, they are judged and trained follows from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import smooth
from fedsub_core.methods.fedsub import SubnetworkHyperparameters
from fedsub_core.options import choice, option

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
