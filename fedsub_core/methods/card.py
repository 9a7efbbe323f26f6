"""A method's card: what it is called, who published it, where its halves live, what travels.

A method is a card, a learner (device half) and a strategy (server half), and a predictor where the
model alone does not predict. These are named by import path and loaded on use, so the device never
imports server code. Nor does a card import what computes: `fedsub --help` reads them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from fedsub_core.models.architecture import Architecture
from fedsub_core.options import choice, option
from fedsub_core.wire.bundles import Declaration, dense

#: What most methods show.
SEES_MODELS = (
    "The server sees each person's model after training; other devices see only means of them."
)

Tested = Literal["received", "trained"]
#: What of a run a weak device holds a part of; "": nothing.
Narrow = Literal["", "encoder", "model", "elements"]
#: What makes the model that a weak device holds by default: the first units of each hidden layer.
FIRST_UNITS = "fedsub_core.models.units:first_of"


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
    round : of a round of training.
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


@dataclass(frozen=True)
class Training:
    """The training of a device in a round.

    Parameters
    ----------
    solves : the kind of model that it solves for in closed form, whatever the run's, on features of
        an encoder: no setting of training, such as ``lr``, changes anything. "": it trains the
        run's model in steps.
    rule : of hyperparameters and the learning rate, what a device computes in a round, in words;
        "": steps of the run's optimiser, as its settings of training say.
    ignores : settings of training that change nothing, of a method that trains.
    rates : hyperparameters that are learning rates beside the run's ``lr``, or multiples of it.
    """

    solves: str = ""
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
        return _load(self.holds)


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
    averages : whether the server half makes of a round's uploads nothing but their mean, weighted
        by samples, and sends all the same: then it can do with the mean alone
        (``secure-aggregation``), and with noise on it (``dp-noise``).
    summed_learner, summed_strategy : where the halves live that serve runs of secure sums, of a
        method that does not average and whose server can do with sums; "": there are none.
    not_in_sums : of hyperparameters, what does not go with secure sums, and what is expected
        instead; "": all goes.
    check : raises a ConfigError where hyperparameters do not fit a run of so many rounds.
    needs : hyperparameters, off by default, without which the method is refused: what it shows
        others of a person needs that person's consent.
    choose : when to choose it.
    privacy : what the server and other devices see of a person.
    decisions : what the paper leaves open, and how it is decided here.
    errors : where the paper or public code errs, and what is done here.
    prediction : what a person is tested with; by default the model.
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
    training: Training = Training()
    weak: WeakDevices = WeakDevices()
    filtered: bool = True
    averages: bool = False
    summed_learner: str = ""
    summed_strategy: str = ""
    not_in_sums: Callable[[Any], str] = lambda hyper: ""
    check: Callable[[Any, int], None] = any_run
    needs: tuple[str, ...] = ()
    choose: str = ""
    privacy: str = SEES_MODELS
    decisions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    prediction: Prediction = Prediction()

    def agreed(self) -> Any:
        """Return the default hyperparameters of people who consent to what the method needs."""
        return self.hyperparameters(**dict.fromkeys(self.needs, True))

    @property
    def sums(self) -> bool:
        """Whether the server can do with sums of uploads (``secure-aggregation``)."""
        return self.averages or bool(self.summed_strategy)

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
        return _load((self.summed_learner if sums else "") or self.learner)

    def load_predictor(self) -> Any:
        """Import and return what predicts, a ``Predictor`` class."""
        return _load(self.prediction.predictor)

    def load_strategy(self, sums: bool = False) -> Any:
        """Import and return the server half, a ``ServerHalf`` class; that of secure `sums`."""
        return _load((self.summed_strategy if sums else "") or self.strategy)


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
