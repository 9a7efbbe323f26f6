"""The device half of a method: pure functions over a stack of clients' state.

A device is a cohort of one: on a phone the leading client axis has length 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from fedsub_client.downloads import adopted
from fedsub_client.mean_models import MEAN, MeanModels, with_means
from fedsub_client.predictor import Predictor
from fedsub_client.protections.vectors import Vectors
from fedsub_core.addends import Addend
from fedsub_core.backend import Backend
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Model, Params
from fedsub_core.pytorch import Tensor, as_numpy, copied, torch, without_gradients, zeros
from fedsub_core.training.batches import Step
from fedsub_core.training.gradients import Gradient
from fedsub_core.training.loop import Trained, train
from fedsub_core.training.objectives import CE, Objective, Term
from fedsub_core.training.passes import Passes, each_batch
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Declaration, Floats

State = dict[str, Tensor]
#: Numbers that a client reports beside its upload, by name.
Report = Mapping[str, float]
#: A download for every client, in the order of the stack; and what a round of local work gives.
Received = Sequence[Bundle]
Fitted = tuple[State, list[Bundle], list[Report]]


class Learner(MeanModels, Vectors, ABC):
    """A method's device half: its work on data, state and what the server sends.

    Parameters
    ----------
    hyper : the method's hyperparameters (``fedsub_core.methods``).
    sends : the tensors that the method's card says a device sends.
    predictor : what the card says computes with :meth:`personal`'s tensors.
    whole : the run's model, where a weak device holds some of its units alone.
    adds : what the card says a person adds to sums, where more than the mean is made of them.
    """

    #: The models that a client keeps. What the server sends goes into the first; the last is the
    #: client's own, which is evaluated, exported and used.
    models: tuple[str, ...] = ("model",)
    #: What training minimises, before a method adds to it.
    loss: Term | Objective = CE

    def __init__(
        self,
        model: Model,
        settings: TrainingSettings,
        hyper: Any,
        sends: Declaration,
        predictor: type[Predictor] = Predictor,
        whole: Model | None = None,
        adds: Sequence[Addend] = (),
    ) -> None:
        self.model, self.settings, self.hyper, self.sends = model, settings, hyper, sends
        self.whole, self.adds = whole, adds
        self.predictor = predictor.of(self.predicting(model), hyper)
        self.check()

    # What a method defines.

    #: Whether all that is sent of the model comes back with each download, and is adopted.
    renewed: bool = False

    def predicting(self, model: Model) -> Model:
        """Return the part of what it trains that predictions need; by default all of it."""
        return model

    def check(self) -> None:  # most methods have nothing to check
        """Raise a ConfigError if hyperparameters do not fit the model or the settings."""

    @abstractmethod
    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Do one round of local work: take in what was received, train, say what to upload.

        `received` and what is returned are in the order of ``data.clients``.
        """

    def init(self, clients: int, seed: int) -> State:
        """Return the state of `clients` devices before the first round: one shared model.

        Every tensor has a leading client axis.
        """
        start = self.first_model(clients, seed)
        state = {
            f"{name}.{key}": copied(tensor) for name in self.models for key, tensor in start.items()
        }
        if len(self.models) > 1:
            state["met"] = zeros((clients,))
        return state | self.first_means(state, clients)

    def first_model(self, clients: int, seed: int) -> Params:
        """Return the model from which all that a client keeps begin, of `clients` alike."""
        return self.model.init(clients, seed)

    def own_secrets(self) -> State:
        """Return the state of one real device that is drawn from its system's randomness."""
        return {}

    def receive(self, state: State, received: Received) -> State:
        """Return the state after each client took in its download, which may be empty.

        Parameters that it names replace those of the first model; of every model where it is the
        client's first download, for whoever joins late starts from the server's model.
        """
        first, *others = self.models
        state = state | self.put(adopted(self.get(state, first), received), first)
        if others:
            met = state["met"].tolist()
            new = [Bundle() if known else b for b, known in zip(received, met, strict=True)]
            for name in others:
                state |= self.put(adopted(self.get(state, name), new), name)
            state["met"] = torch.ones_like(state["met"])
        return state

    def arrived(self, state: State, received: Received, data: Stack, turn: Turn) -> State:
        """Return the state with what was received before a test; `data` are training samples.

        For methods that make a model of it by their own samples.
        """
        return self.receive(state, received)

    def adapt(self, state: State, data: Stack, turn: Turn) -> State:
        """Return the state with models that were trained on before they are used; nobody keeps it.

        For methods that adapt a model to each person.
        """
        return state

    def settled(self, state: State, data: Stack) -> State:
        """Return the statistics that follow from clients' training samples once they are tested.

        With static norms these are statistics of the personal model, put into every model, so that
        a method that mixes models finds them in the mix; where several predict, of each its own.
        """
        shapes = self.model.tensor_shapes
        own = {n: t for n, t in self.predicted_by(state).items() if n in shapes}
        if own.keys() == shapes.keys():
            each = dict.fromkeys(self.models, self.model.settled(own, data))
        else:
            kept = [(name, self.get(with_means(state), name)) for name in self.models]
            each = {name: self.model.settled(params, data) for name, params in kept}
        new = {f"{name}.{key}": t for name, stats in each.items() for key, t in stats.items()}
        return new | {MEAN + name: t for name, t in new.items() if MEAN + name in state}

    def personal(self, state: State) -> Params:
        """Return the predictor's tensors in `state`: the parameters of the clients' own models."""
        return self.get(state, self.models[-1])

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Return the predictor's logits ``[clients, samples, classes]``.

        `x [clients, samples, *features]`, as a model sees samples.
        """
        with without_gradients():
            return self.predictor.forward(self.predicted_by(state), x)

    def predict_alone(self, state: State, x: Tensor) -> Tensor | None:
        """Return logits of the models that clients have without others; None: it trains none.

        What a method gives them is held against these on the same samples.
        """
        return None

    # What holds for every method.

    def work(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Do :meth:`fit`'s round, and count the models that are tested in the means over rounds.

        These are the trained ones, or those that were received at the round's start.
        """
        new, uploads, reports = self.fit(state, received, data, turn)
        if self.averaged:
            trained = self.hyper.tested == "trained"
            tested = new if trained else self.arrived(state, received, data, turn)
            new = new | self.means(tested, data, turn)
        return new, uploads, reports

    def personalise(self, state: State, received: Received, data: Stack, turn: Turn) -> State:
        """Return the state in which the clients' models are tested; nothing of it is kept.

        `data` are training samples. Where means predict, these are adapted.
        """
        state = self.arrived(state, received, data, turn)
        if not self.averaged:
            return self.adapt(state, data, turn)
        state = self.adapt(with_means(self.with_tested_means(state, data, turn)), data, turn)
        return state | {MEAN + name: state[name] for name in self.averaged}

    def predicted_by(self, state: State) -> Params:
        """Return the tensors of predictions: :meth:`personal`, of means where these predict."""
        return self.personal(with_means(state) if self.averaged else state)

    def trained_by(self, x: Tensor) -> Backend:
        """Return the backend that trains on samples such as `x`, with the run's model and loss."""
        return Gradient(self.model, self.loss).trained_by(x, self.settings)

    # What methods are made of.

    def get(self, state: State, name: str) -> Params:
        """Return one of the models that the clients keep."""
        return {key: state[f"{name}.{key}"] for key in self.model.tensor_shapes}

    def put(self, params: Params, name: str) -> State:
        """Return a model's parameters as a part of the state."""
        return {f"{name}.{key}": tensor for key, tensor in params.items()}

    def train(self, params: Params, data: Stack, turn: Turn, **options: Any) -> Trained:
        """Train with the run's settings and the loss: :func:`fedsub_core.training.loop.train`."""
        options = {"settings": self.settings, "objective": self.loss} | options
        return train(self.model, params, data, turn, **options)

    def on_each_batch(
        self, state: State, data: Stack, turn: Turn, step: Step, beside: State | None = None
    ) -> tuple[State, Tensor]:
        """Let `step` change stacked tensors with every batch of the round.

        Returns them without those `beside`, and each client's mean loss:
        :func:`fedsub_core.training.passes.each_batch`.
        """
        passes, fewest = Passes.of(self.settings), self.model.fewest_samples
        return each_batch(state, data, turn, step, passes, beside=beside, fewest=fewest)

    def uploads(self, params: Params, data: Stack) -> list[Bundle]:
        """Return, for each client, the parameters that the card says are sent, whole."""
        arrays = {name: as_numpy(params[name]) for name in self.sends}
        return [
            Bundle(count, tensors={name: Floats(array[i]) for name, array in arrays.items()})
            for i, count in enumerate(data.counts)
        ]


def reported(**values: Tensor) -> list[Report]:
    """Return one report a client of values ``[clients]`` by name."""
    columns = {name: tensor.tolist() for name, tensor in values.items()}
    clients = len(next(iter(columns.values())))
    return [{name: column[i] for name, column in columns.items()} for i in range(clients)]
