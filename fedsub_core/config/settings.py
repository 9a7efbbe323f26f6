"""What each part of a run is handed of its configuration: its own settings and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedsub_core.data.card import Card
from fedsub_core.errors import ConfigError
from fedsub_core.models.names import HIDDEN
from fedsub_core.options import suggestion
from fedsub_core.version import VERSION
from fedsub_core.wire.encoding import WireSettings


@dataclass(frozen=True)
class TrainingSettings:
    """How a device trains in a round.

    Parameters
    ----------
    epochs : passes over the client's data.
    lr : learning rate of the first round.
    momentum : of SGD; the buffer starts at zero in every phase of every round.
    batch_size : samples of a step; the last partial batch is kept.
    optimiser : ``sgd`` or ``adam``.
    weight_decay : an L2 penalty's gradient, ``weight_decay * p``, joins the gradient.
    clip_norm : gradients of a client are scaled to at most this L2 norm; 0: not.
    lr_decay : the rate of round r is ``lr * lr_decay ** (r - 1)``.
    """

    epochs: int = 1
    lr: float = 0.005
    momentum: float = 0.9
    batch_size: int = 32
    optimiser: str = "sgd"
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    lr_decay: float = 1.0

    def plain(self) -> TrainingSettings:
        """Return these with steps ``p - lr * gradient``, whatever the optimiser of the run is."""
        return replace(self, optimiser="sgd", momentum=0.0, weight_decay=0.0, clip_norm=0.0)

    def rate(self, round: int) -> float:
        """Return the learning rate of a round, from 1."""
        return self.lr if self.lr_decay == 1 else self.lr * self.lr_decay ** (round - 1)


@dataclass(frozen=True)
class SplitSettings:
    """How each client's samples are split.

    Parameters
    ----------
    kind : ``auto``, ``stratified``, ``blocked`` or ``unseen``.
    test_share : of each class that is tested.
    train_share : of each class of the training part that is kept; 1: all.
    seed : of the run.
    unlabelled, unlabelled_classes : share of people who have no training sample of some of their
        classes, and which share of these at most; all their classes are tested.
    validation : whether a part of the training part is held back to choose the best round by, as
        large a share of it as is tested.
    """

    kind: str = "auto"
    test_share: float = 0.3
    train_share: float = 1.0
    seed: int = 0
    unlabelled: float = 0.0
    unlabelled_classes: float = 0.8
    validation: bool = False


@dataclass(frozen=True)
class UnseenSettings:
    """People held out until the last rounds: their share, and how many rounds."""

    share: float
    rounds: int


@dataclass(frozen=True)
class RoundSettings:
    """How many rounds, with whom, and how patiently.

    Parameters
    ----------
    rounds : in all.
    seed : of the run.
    clients_per_round : drawn in each round; 0: all.
    evaluate_every : rounds between two evaluations.
    timeout : seconds a round waits for its clients.
    quorum : share of a round's clients whose uploads it needs.
    min_clients, join_timeout : how many must be connected, and how long they are waited for, s.
    unseen : people held out, None where nobody is.
    identity : ``keys``: a client is who came with its key; ``open``: whoever says so.
    """

    rounds: int
    seed: int = 0
    clients_per_round: int = 0
    evaluate_every: int = 1
    timeout: float = 600.0
    quorum: float = 0.5
    min_clients: int = 1
    join_timeout: float = 120.0
    unseen: UnseenSettings | None = None
    identity: str = "keys"

    def evaluated(self, round: int) -> bool:
        """Return whether everybody's model is tested after a round."""
        return round % self.evaluate_every == 0 or round == self.rounds


#: What may stand between uploads and their mean.
ROBUST_FILTERS = ("none", "clip", "multi-krum", "trimmed-mean", "median")


@dataclass(frozen=True)
class RobustSettings:
    """What keeps a few malicious uploads from deciding a mean.

    Parameters
    ----------
    clip, multi_krum : whether uploads are clipped, whether those far from all others are left out.
    mean : ``mean``, ``trimmed-mean`` or ``median`` of what is left.
    share : of a round's clients that may be malicious.
    most_examples : samples of one client that count at most in a mean, over the round's median;
        0: any.
    """

    clip: bool = True
    multi_krum: bool = False
    mean: str = "mean"
    share: float = 0.2
    most_examples: float = 3.0

    @classmethod
    def parse(cls, text: str, share: float, most_examples: float = 3.0) -> RobustSettings:
        """Return the settings of a list of filters, such as ``clip,trimmed-mean``.

        Raises
        ------
        ConfigError
            For an unknown filter, for ``none`` with others, or for two means.
        """
        parts = [part.strip() for part in text.split(",") if part.strip()]
        for part in parts:
            if part not in ROBUST_FILTERS:
                hint = suggestion(part, ROBUST_FILTERS)
                known = ", ".join(ROBUST_FILTERS)
                raise ConfigError(f"robust: unknown {part!r}.{hint} Known: {known}")
        means = [part for part in parts if part in ("trimmed-mean", "median")]
        if len(means) > 1 or ("none" in parts and len(parts) > 1):
            raise ConfigError(f"robust: got {text!r}, expected none alone, or one mean at most")
        mean = means[0] if means else "mean"
        return cls("clip" in parts, "multi-krum" in parts, mean, share, most_examples)


@dataclass(frozen=True)
class ServerSettings:
    """What the server half of one method needs.

    Parameters
    ----------
    method, hyper : its name in the table and its hyperparameters.
    rounds : see :class:`RoundSettings`.
    wire : how messages are written.
    model : the kind of model.
    standardise : ``federation``, ``federation-median``, ``client`` or ``none``.
    workers : threads to compute with.
    robust : see :class:`RobustSettings`.
    card : the operator's, which decides on classes and features; None: most devices do.
    encoder : what stands in front of the model (:mod:`fedsub_core.encoders.names`).
    norm : where running statistics of norms go (:mod:`fedsub_core.models.norms`).
    hidden : units of each hidden layer of ``mlp``, with commas.
    version : what devices must share (:func:`fedsub_core.packages.version_with`).
    """

    method: str
    hyper: Any
    rounds: RoundSettings
    wire: WireSettings
    model: str
    standardise: str
    workers: int = 1
    robust: RobustSettings = RobustSettings()
    card: Card | None = None
    encoder: str = "auto"
    norm: str = "averaged"
    version: str = VERSION
    hidden: str = HIDDEN


@dataclass(frozen=True)
class DeviceSettings:
    """What the device half of one method needs.

    Parameters
    ----------
    method, hyper : its name in the table and its hyperparameters.
    training : local training.
    split : of each client's samples.
    wire : how messages are written.
    model : the kind of model.
    standardise : ``federation``, ``federation-median``, ``client`` or ``none``.
    seed : of the run, from which the first model and the encoder are drawn.
    encoder : what stands in front of the model (:mod:`fedsub_core.encoders.names`).
    norm : where running statistics of norms go (:mod:`fedsub_core.models.norms`).
    hidden : units of each hidden layer of ``mlp``, with commas.
    version : what the server must share (:func:`fedsub_core.packages.version_with`).
    """

    method: str
    hyper: Any
    training: TrainingSettings
    split: SplitSettings
    wire: WireSettings
    model: str
    standardise: str
    seed: int
    encoder: str = "auto"
    norm: str = "averaged"
    version: str = VERSION
    hidden: str = HIDDEN
