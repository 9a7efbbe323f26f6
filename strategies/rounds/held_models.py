"""The model of a run, and what devices of each capacity hold of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fedsub_core.config.halves import ServerSettings
from fedsub_core.methods.card import MethodCard
from fedsub_core.models.architecture import Shape
from fedsub_core.models.held import Held
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Declaration


@dataclass(frozen=True, eq=False)
class HeldModels:
    """The model of a run, and its parts that weak devices hold.

    Parameters
    ----------
    card, hyper : of the method.
    whole : the model of a device that holds everything.
    narrowed : the model of a device of a capacity below 1; each is built once.
    """

    card: MethodCard
    hyper: Any
    whole: Model
    narrowed: Callable[[float], Model]
    _built: dict[float, Model] = field(default_factory=dict)

    @classmethod
    def of(
        cls, settings: ServerSettings, card: MethodCard, shape: Shape, classes: int
    ) -> HeldModels:
        """Return the models of a run whose samples have a shape, and of so many classes."""

        def of_capacity(capacity: float) -> Model:
            seed = settings.rounds.seed
            return Held.of(card, settings, seed, shape, classes, capacity).model

        return cls(card, settings.hyper, of_capacity(1.0), of_capacity)

    def at(self, capacity: float) -> Model:
        """Return the model that a device of a capacity holds."""
        if capacity == 1 or not self.card.weak.narrow:
            return self.whole
        if capacity not in self._built:
            self._built[capacity] = self.narrowed(capacity)
        return self._built[capacity]

    def sends(self, model: Model) -> Declaration:
        """Return the tensors that a device with a model sends."""
        return self.card.sends(model, self.hyper)

    def receives(self, model: Model) -> Declaration:
        """Return the tensors that a device with a model receives."""
        return self.card.receives(model, self.hyper)
