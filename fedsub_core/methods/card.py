"""A method's card: what it is called, who published it, where its halves live, what travels.

A method is a card, a learner (device half) and a strategy (server half), and a predictor where the
model alone does not predict. These are named by import path and loaded on use, so the device never
imports server code. Nor does a card import what computes: `fedsub --help` reads them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from fedsub_core.addends import Sums
from fedsub_core.methods.card_parts import Prediction, Training, WeakDevices, load
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, dense

#: What most methods show.
SEES_MODELS = (
    "The server sees each person's model after training; other devices see only means of them."
)

Tested = Literal["received", "trained"]


def tested(default: Tested) -> Any:
    """Return the hyperparameter that says which model is tested, with a method's default."""
    other = "trained" if default == "received" else "received"
    return choice(
        default,
        other,
        doc="which model is tested: received (after the latest download, before training) or "
        "trained (after local training)",
    )


def smooth(default: float) -> Any:
    """Return the hyperparameter that says whether means over rounds predict, and of how many."""
    return option(
        default,
        "predict with an average of the person's models over rounds, which keeps this share "
        "of its past in each round; 0: no average",
        minimum=0,
        below=1,
    )


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of every method; a method's own dataclass adds to them."""

    tested: str = tested("trained")
    smooth: float = smooth(0.0)


@dataclass(frozen=True)
class ReceivedHyperparameters(Hyperparameters):
    """The hyperparameters of methods whose personal model is what the server sends."""

    tested: str = tested("received")


@dataclass(frozen=True)
class Cost:
    """The cost of a device, in epochs of plain training on its own data.

    Parameters
    ----------
    evaluation : what an evaluation adds, where it adapts the model first.
    """

    round: float
    evaluation: float = 0.0


def whole_model(model: Architecture, hyper: Any) -> Declaration:
    """Declare every parameter of the model."""
    return {name: dense(shape) for name, shape in model.parameter_shapes.items()}


def nothing(model: Architecture, hyper: Any) -> Declaration:
    """Declare no tensor."""
    return {}


def any_run(hyper: Any, rounds: int) -> None:
    """Accept hyperparameters for a run of any length."""


#: Settings of training that a plain step does not have.
PLAIN = ("optimiser", "momentum", "weight-decay", "clip-norm")


def plain_cost(hyper: Any, epochs: int) -> Cost:
    """Return the cost of a method that does the round's epochs and no more."""
    return Cost(epochs)


@dataclass(frozen=True)
class MethodCard:
    """One method.

    Parameters
    ----------
    name : by which runs and files know it.
    idea : what it does, in one line.
    paper : who published it.
    learner, strategy : where the halves live, ``module:class``.
    hyperparameters : a frozen dataclass, each field with its default, range and meaning.
    up, down : what is sent each round, in words.
    sends, receives : the tensors that a device sends and receives, of a model and hyperparameters.
    cost : of hyperparameters and epochs.
    reports : names of the numbers that devices report beside an upload.
    fixes_rounds : whether, with these hyperparameters, what a round does depends on how many there
        are in all: such a run cannot be given more.
    training : how a device computes a round; by default it trains in steps.
    weak : what weak devices hold; by default everything.
    filtered : whether filters on uploads (``robust``) stand before what the server makes of them.
    sums : how the server can do with sums of what people send (``secure-aggregation``); ``MEANS``:
        it needs their mean alone. None: it needs each person's upload.
    check : raises a ConfigError where hyperparameters do not fit a run of so many rounds.
    needs : hyperparameters, off by default, without which the method is refused: what it shows
        others of a person needs that person's consent.
    choose : when to choose it.
    privacy : what the server and other devices see of a person.
    decisions : what the paper leaves open, and how it is decided here.
    errors : where the paper or public code errs, and what is done here.
    prediction : what a person is tested with; by default the model.
    regression : whether it learns a target, a number in the place of classes, too.
    """

    name: str
    idea: str
    paper: str
    learner: str
    strategy: str
    hyperparameters: type[Any] = Hyperparameters
    up: str = "the model"
    down: str = "the model"
    sends: Callable[[Architecture, Any], Declaration] = whole_model
    receives: Callable[[Architecture, Any], Declaration] = whole_model
    cost: Callable[[Any, int], Cost] = plain_cost
    reports: tuple[str, ...] = ("training_loss",)
    fixes_rounds: Callable[[Any], bool] = lambda hyper: False
    training: Training = field(default_factory=Training)
    weak: WeakDevices = field(default_factory=WeakDevices)
    filtered: bool = True
    sums: Sums | None = None
    check: Callable[[Any, int], None] = any_run
    needs: tuple[str, ...] = ()
    choose: str = ""
    privacy: str = SEES_MODELS
    decisions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    prediction: Prediction = field(default_factory=Prediction)
    regression: bool = False

    def agreed(self) -> Any:
        """Return the default hyperparameters of people who consent to what the method needs."""
        return self.hyperparameters(**dict.fromkeys(self.needs, True))

    @property
    def trains(self) -> bool:
        """Whether it trains in steps, which settings of training change."""
        return not self.training.solves

    @property
    def rate_keys(self) -> tuple[str, ...]:
        """Keys of the learning rates that decide whether its training diverges."""
        if not self.trains:
            return ()
        return ("lr", *(f"{self.name}.{rate.replace('_', '-')}" for rate in self.training.rates))

    def load_learner(self, sums: bool = False) -> Any:
        """Import and return the device half, a ``Learner``; that of secure `sums`."""
        return load((self.sums.learner if sums and self.sums else "") or self.learner)

    def load_predictor(self) -> Any:
        """Import and return what predicts, a ``Predictor`` class."""
        return load(self.prediction.predictor)

    def load_strategy(self, sums: bool = False) -> Any:
        """Import and return the server half, a ``ServerHalf``; that of secure `sums`."""
        return load((self.sums.strategy if sums and self.sums else "") or self.strategy)
