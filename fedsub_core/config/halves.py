"""What the server half and the device half of one method are handed of a run's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedsub_core.config.robust import RobustSettings
from fedsub_core.config.settings import (
    ModelSettings,
    NoiseSettings,
    RoundSettings,
    SecureSettings,
    SplitSettings,
    TrainingSettings,
)
from fedsub_core.data.card import Card
from fedsub_core.version import VERSION
from fedsub_core.wire.encoding import WireSettings


@dataclass(frozen=True, kw_only=True)
class HalfSettings(ModelSettings):
    """What either half of one method needs.

    Parameters
    ----------
    method, hyper : its name in the table and its hyperparameters.
    secure, noise : see :class:`SecureSettings` and :class:`NoiseSettings`.
    version : what each side says it is (:func:`fedsub_core.packages.version_with`).
    """

    method: str
    hyper: Any
    wire: WireSettings
    secure: SecureSettings = field(default_factory=SecureSettings)
    noise: NoiseSettings = field(default_factory=NoiseSettings)
    version: str = VERSION


@dataclass(frozen=True, kw_only=True)
class ServerSettings(HalfSettings):
    """What the server half of one method needs.

    Parameters
    ----------
    rounds : see :class:`RoundSettings`.
    workers : threads to compute with.
    robust : see :class:`RobustSettings`.
    card : the operator's, which decides on classes and features; None: most devices do.
    training : of devices, which a server only speaks of.
    given : keys of the run that devices go by and that are not at their defaults.
    """

    rounds: RoundSettings
    workers: int = 1
    robust: RobustSettings = field(default_factory=RobustSettings)
    card: Card | None = None
    training: TrainingSettings = field(default_factory=TrainingSettings)
    given: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeviceSettings(HalfSettings):
    """What the device half of one method needs.

    Parameters
    ----------
    split : of each client's samples.
    seed : of the run, from which the first model and the encoder are drawn.
    class_counts : whether test samples are counted by true and predicted class.
    """

    training: TrainingSettings
    split: SplitSettings
    seed: int
    class_counts: bool = True
