"""Parts of a card: a device's training, what weak devices hold, what a person is tested with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

#: What of a run a weak device holds a part of; "": nothing.
Narrow = Literal["", "encoder", "model", "elements"]
#: What makes the model that a weak device holds by default: the first units of each hidden layer.
FIRST_UNITS = "fedsub_core.models.units:first_of"


def load(path: str) -> Any:
    """Import and return what stands at a path, ``module:name``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Training:
    """The training of a device in a round.

    Parameters
    ----------
    solves : the kind of model that it solves for in closed form, whatever the run's, on features of
        an encoder: no setting of training, such as ``lr``, changes anything. "": it trains the
        run's model in steps.
    encodes : whether a run that says ``encoder = auto`` puts an encoder in front of its model.
    rule : of hyperparameters and the learning rate, what a device computes in a round, in words;
        "": steps of the run's optimiser, as its settings of training say.
    ignores : settings of training that change nothing, of a method that trains.
    rates : hyperparameters that are learning rates beside the run's ``lr``, or multiples of it.
    """

    solves: str = ""
    encodes: bool = False
    rule: Callable[[Any, float], str] = lambda hyper, lr: ""
    ignores: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()


@dataclass(frozen=True)
class WeakDevices:
    """The part of a model that a device of a capacity below 1 holds.

    Parameters
    ----------
    narrow : of what it holds a part: ``encoder``, its first kernels or units; ``model``, some units
        of each hidden layer; ``elements``, single numbers: the others are 0, and neither train nor
        travel; "": all devices hold everything.
    holds : where ``narrow = "model"``: what makes the model that a device of a capacity holds of
        the run's, ``module:function`` of model, hyperparameters and capacity.
    resizes : whether what a device receives replaces all that it holds of the model, so that it may
        hold another share in each round (``capacity-mode = dynamic``); else it always holds the
        least of the shares.
    """

    narrow: Narrow = ""
    holds: str = FIRST_UNITS
    resizes: bool = False

    @property
    def has_rule(self) -> bool:
        """Whether there is a rule of its own for how wide and deep a weak device's model is."""
        return self.narrow == "model" and self.holds != FIRST_UNITS

    @property
    def sends_all(self) -> bool:
        """Whether what a weak device holds of the model is what the server sends it."""
        return self.resizes or self.has_rule

    def load_holds(self) -> Any:
        """Import and return what makes the model that a device holds."""
        return load(self.holds)


@dataclass(frozen=True)
class Prediction:
    """The predictor that a person is tested with, uses and exports.

    Parameters
    ----------
    predictor : where it lives, ``module:class``: a ``fedsub_client.predictor.Predictor``, which is
        the person's model alone.
    models : of hyperparameters, how many models' size a person's own has at most.
    shares : of the card's reports, shares of a whole, by name what each is of: how much a person's
        prediction owes to each of several models. A run's page draws them beside one another.
    """

    predictor: str = "fedsub_client.predictor:Predictor"
    models: Callable[[Any], int] = lambda hyper: 1
    shares: Mapping[str, str] = field(default_factory=dict)
