"""What each part of a run is handed of its configuration: its own settings and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedsub_core.training.settings import TrainingSettings
from fedsub_core.wire.encoding import WireSettings


@dataclass(frozen=True)
class SplitSettings:
    """How each client's samples are split.

    Parameters
    ----------
    kind : ``auto``, ``stratified``, ``blocked`` or ``unseen``.
    test_share : of each class that is tested.
    train_share : of each class of the training part that is kept; 1: all.
    seed : of the run.
    """

    kind: str = "auto"
    test_share: float = 0.3
    train_share: float = 1.0
    seed: int = 0


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


@dataclass(frozen=True)
class ServerSettings:
    """What the server half of one method needs.

    Parameters
    ----------
    method, hyper : its name in the table and its hyperparameters.
    rounds : see :class:`RoundSettings`.
    wire : how messages are written.
    model : the kind of model.
    standardise : ``federation``, ``client`` or ``none``.
    workers : threads to compute with.
    """

    method: str
    hyper: Any
    rounds: RoundSettings
    wire: WireSettings
    model: str
    standardise: str
    workers: int = 1


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
    standardise : ``federation``, ``client`` or ``none``.
    seed : of the run, from which the first model is drawn.
    """

    method: str
    hyper: Any
    training: TrainingSettings
    split: SplitSettings
    wire: WireSettings
    model: str
    standardise: str
    seed: int
