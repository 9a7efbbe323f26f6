"""The table of methods: each is a learner, a strategy and its hyperparameters.

Adding a method is one row here, at most one file per side, and one test file. The classes are
named by import path and loaded on use, so the device never imports server code.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.options import choice, option, suggestion

RELEVANCE_RULES = ("naive", "lrp-a1b0", "lrp-a2b1")
LRP_STARTS = ("logits", "target")
SCORES = ("one", "samples", "accuracy", "accuracy-samples")
FUSIONS = ("overlapping", "overlapping-any", "overlapping-additive", "leadership", "avg")
PROTOTYPE_FEATURES = ("input", "embedding")
PROTOTYPE_NOISES = ("none", "gaussian", "laplace")


@dataclass(frozen=True)
class NoHyperparameters:
    """A method that is fully described by the training settings."""


@dataclass(frozen=True)
class FedSubHyperparameters:
    """FedSub's hyperparameters, defaults of the journal version unless said otherwise."""

    relevance: str = choice(
        "lrp-a2b1", "lrp-a1b0", "naive", doc="how units are judged relevant (eq. 2, 4, 5)"
    )
    lrp_start: str = choice(*LRP_STARTS, doc="outputs from which relevance starts")
    score: str = choice(*SCORES, doc="omega: how much a client's subnetwork counts in a cluster")
    fusion: str = choice(*FUSIONS, doc="how a cluster's subnetworks are fused (eq. 6-10)")
    k_selection: str = option(
        "dbi",
        "number of clusters: dbi (the paper), dbi-capped, silhouette or fixed:K",
        pattern=r"dbi|dbi-capped|silhouette|fixed:[1-9][0-9]*",
    )
    prototype: str = choice(*PROTOTYPE_FEATURES, doc="features whose class mean is the prototype")
    depth: int = option(0, "collaborate on the first L layers only; 0 = all (full)", minimum=0)
    impute: bool = option(False, "predict prototypes of classes a client lacks (first version)")
    impute_neighbours: int = option(5, "n most similar clients used to predict one", minimum=1)
    compile: bool = option(False, "compile the relevance pass with torch.compile")
    prototype_noise: str = choice(*PROTOTYPE_NOISES, doc="differentially private prototypes")
    prototype_clip: float = option(
        0.0, "clip prototypes to this L2 (laplace: L1) norm before noise", minimum=0.0
    )
    prototype_sigma: float = option(
        0.0, "standard deviation of the noise on each feature of a prototype", minimum=0.0
    )
    prototype_delta: float = option(1e-5, "delta at which epsilon is reported", above=0, below=1)


@dataclass(frozen=True)
class Method:
    """A row of the table: where the two halves live, what it is called, who published it."""

    name: str
    learner: str
    strategy: str
    paper: str
    hyperparameters: type[Any] = NoHyperparameters

    def load_learner(self) -> Any:
        """Import and return the device half, a ``Learner`` class."""
        return _load(self.learner)

    def load_strategy(self) -> Any:
        """Import and return the server half, a ``PersonalizedStrategy`` class."""
        return _load(self.strategy)


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            "fedsub",
            "fedsub_client.learners.fedsub.learner:FedSubLearner",
            "strategies.fedsub.strategy:FedSubStrategy",
            "Campana and Delmastro, FedSub: Introducing Class-aware Subnetworks Fusion to "
            "Enhance Personalized Federated Learning",
            FedSubHyperparameters,
        ),
        Method(
            "local",
            "fedsub_client.learners.local:LocalLearner",
            "strategies.local:LocalStrategy",
            "no communication: what every person reaches alone",
        ),
        Method(
            "fedavg",
            "fedsub_client.learners.fedavg:FedAvgLearner",
            "strategies.fedavg:FedAvgStrategy",
            "McMahan et al., Communication-Efficient Learning of Deep Networks from "
            "Decentralized Data, AISTATS 2017",
        ),
    )
}


def method(name: str) -> Method:
    """Return the method called `name`, or raise a ConfigError that suggests the nearest."""
    if name in METHODS:
        return METHODS[name]
    raise ConfigError(
        f"unknown method {name!r}.{suggestion(name, METHODS)} Known methods: {', '.join(METHODS)}."
    )
