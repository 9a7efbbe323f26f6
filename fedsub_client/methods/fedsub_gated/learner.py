"""FedSub with a federated gate, the device half: experts, their gate, classes that come later."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.mean_models import MEAN, smoothed
from fedsub_client.methods.fedsub_gated.experts import COMMON_WEIGHTS, ExpertsLearner
from fedsub_client.methods.fedsub_gated.gate import (
    ALPHA,
    calibration_curves,
    explained,
    of_labels,
    own_sums,
    posterior,
    responsibilities,
    trust,
)
from fedsub_client.methods.fedsub_gated.probabilities import (
    HELD,
    MEANS,
    OPEN,
    SPREAD,
    WEIGHTS,
    class_means,
    enough,
)
from fedsub_client.parts.validation import share_held_back
from fedsub_core.data.stacks import Stack, inputs, per_client
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub_gated import CURVES, GATE, TEMPERATURE, TEMPERATURES, WEIGHT
from fedsub_core.methods.fedsub_gated_experts import FUSED, GATE_SHARE, HEAD, LOCAL, judges, names
from fedsub_core.models.model import Params
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Floats

Array = NDArray[np.float32]

#: How many of the samples held back each expert explains, and how well; by which factor it is
#: believed less, as it went wrong later.
JUDGED, EXPLAINED, TRUST = "gate.judged", "gate.explained", "gate.trust"


class FedSubGatedLearner(ExpertsLearner):
    """Keeps the fused model as it was received and as it was trained on, and experts beside it.

    State: ``model``, which is sent, ``fused``, as it was received, and a model for each expert that
    has one; of all these but the first ``mean.``, over the last rounds, which predict; what the
    :class:`fedsub_client.methods.fedsub_gated.mixture.Mixture` needs; ``gate.common``,
    ``gate.judged``, ``gate.explained`` and ``gate.trust`` [experts].
    """

    method = "fedsub-gated"
    classes_known = HELD

    def check(self) -> None:
        """Refuse what FedSub refuses, and outputs without a bias; know the models."""
        super().check()
        last = self.model.affine[-1].name
        if f"{last}.bias" not in self.model.tensor_shapes:
            raise ConfigError(
                f"{self.method}: layer {last}: got no bias that is trained, expected one: classes "
                "that a person lacks are taken out of the softmax by it"
            )
        self.models = ("model", *self.predictor.models)

    @cached_property
    def averaged(self) -> tuple[str, ...]:
        """Parameters of the experts of which means predict."""
        shapes, gate = self.predictor.tensor_shapes, self.predictor.gate_shapes
        return tuple(name for name in shapes if name not in gate) if self.hyper.smooth else ()

    def init(self, clients: int, seed: int) -> State:
        """Return one start for all models, and a gate that has judged nothing."""
        state = super().init(clients, seed)
        if self.whole is not None and LOCAL in names(self.hyper):
            # Nothing is fused with it: it begins as wide as its own size asks for, as `local` does.
            state |= self.put(self.model.init(clients, seed), LOCAL)
        shapes, experts = self.predictor.tensor_shapes, len(names(self.hyper))
        for name in (HELD, OPEN, MEANS, SPREAD):
            state[name] = torch.zeros(clients, *shapes[name])
        state[HELD] += 1
        if HEAD in names(self.hyper):
            state |= self.put(self.predictor.head_of(state, FUSED), HEAD)
        state |= {MEAN + name: state[name].clone() for name in self.averaged}
        for name in (WEIGHTS, JUDGED, EXPLAINED):
            state[name] = torch.zeros(clients, experts)
        state[TRUST] = torch.ones(clients, experts)
        state[TEMPERATURE] = torch.ones(clients, experts)
        return state | {COMMON_WEIGHTS: torch.full((clients, experts), 1 / experts)}

    def receive(self, state: State, received: Received) -> State:
        """Replace the units that downloads name; note the model then, and the people's weights.

        Who joins late gets everybody's mean with its first download: all its models start there.
        """
        state = super().receive(state, received)
        came = torch.tensor([bool(bundle.tensors) for bundle in received])
        first = came & (state["met"] == 0).cpu()
        state["met"] = torch.where(came.to(state["met"].device), 1.0, state["met"])
        model, (_, fused, *others) = self.get(state, "model"), self.models
        state |= self.put(_where(came, model, self.get(state, fused)), fused)
        for name in others:
            state |= self.put(_where(first, model, self.get(state, name)), name)
        if HEAD in names(self.hyper):
            own = self.predictor.head_of(state, HEAD)
            state |= self.put(_where(first, {key: model[key] for key in own}, own), HEAD)
        means = {MEAN + name: state[MEAN + name] for name in self.averaged}
        state |= _where(first, {MEAN + name: state[name] for name in self.averaged}, means)
        weights = _received(received, GATE, state[COMMON_WEIGHTS])
        # Predictions divide by them, whatever a server says.
        temperatures = _received(received, TEMPERATURE, state[TEMPERATURE])
        state[TEMPERATURE] = temperatures.clamp(TEMPERATURES[0], TEMPERATURES[-1])
        return self._weighed(state | {COMMON_WEIGHTS: weights})

    def personalise(self, state: State, received: Received, data: Stack, turn: Turn) -> State:
        """Return the state as received, with class means in the embedding that came."""
        state = self.receive(state, received)
        came = torch.tensor([bool(bundle.tensors) for bundle in received])
        fused = [name for name in self.averaged if name.partition(".")[0] == FUSED]
        new = smoothed(state, fused, self.hyper.smooth, turn.round)
        if self._opens and came.any():
            new |= self._class_means(state | new, self._kept(data, turn)[0])
        return state | _where(came, new, {name: state[name] for name in new})

    def personal(self, state: State) -> Params:
        """Return the mixture's parameters."""
        return {name: state[name] for name in self.predictor.tensor_shapes}

    def predict_alone(self, state: State, x: Tensor) -> Tensor | None:
        """Return the local expert's logits, if there is one."""
        if LOCAL not in names(self.hyper):
            return None
        with torch.no_grad():
            return self.model.forward(self.get(state, LOCAL), x)

    def work(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train as :meth:`fit`, which makes the means itself: class means go by them."""
        return self.fit(state, received, data, turn)

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train the fused model and the experts; judge them on what is held back."""
        state = self.receive(state, received)
        kept, judged = self._kept(data, turn)
        held = data.holds(self.model.classes)
        params, loss = self.train_restricted(self.get(state, "model"), held, kept, turn)
        state = state | self.put(params, "model")
        if LOCAL in names(self.hyper):
            state |= self.train_alone(state, kept, turn)
        if HEAD in names(self.hyper):
            state |= self.train_head(state, held, kept, turn)
        state |= self.means(state, data, turn)
        state |= self._opened(held, kept)
        if self._opens:
            state |= self._class_means(state, kept)
        state, sums = self._judged(state, judged, turn)
        state, uploads, reports = self.described(state, received, data, turn)
        for i, upload in enumerate(uploads):
            own = {name: Floats(array[i]) for name, array in sums.items()}
            uploads[i] = replace(upload, tensors={**upload.tensors, **own})
        weights = {WEIGHT + n: state[WEIGHTS][:, i] for i, n in enumerate(names(self.hyper))}
        weighed = reported(training_loss=loss, **weights)
        return state, uploads, [{**a, **b} for a, b in zip(weighed, reports, strict=True)]

    def _judged(self, state: State, judged: Stack, turn: Turn) -> tuple[State, dict[str, Array]]:
        """Return the state with the person's weights, and the sums that the gate learns from."""
        each = self._each(state, judged)
        chosen = of_labels(each, judged)
        sums = torch.zeros(len(judged.clients), len(names(self.hyper)) + 1)
        curves = torch.zeros(*sums[:, 1:].shape, len(TEMPERATURES))
        if judges(self.hyper, turn.round, turn.rounds):
            curves = calibration_curves(each, judged).cpu()
            sums[:, :-1] = responsibilities(chosen, state[COMMON_WEIGHTS]).sum(1)
            sums[:, -1] = torch.tensor(judged.counts)
            state[JUDGED] = own_sums(chosen, state[COMMON_WEIGHTS], ALPHA)
            state[EXPLAINED] = explained(chosen, judged)
        state[TRUST] = trust(explained(chosen, judged), state[EXPLAINED])
        return self._weighed(state), {GATE: sums.numpy(), CURVES: curves.numpy()}

    def _kept(self, data: Stack, turn: Turn) -> tuple[Stack, Stack]:
        """Return the samples that train in a round, and those that judge."""
        kept, judged = share_held_back(data, GATE_SHARE, turn.seed)
        return kept if judges(self.hyper, turn.round, turn.rounds) else data, judged

    @property
    def _opens(self) -> bool:
        """Whether classes that the person lacks are predicted."""
        return bool(self.hyper.open_classes == "on")

    def _opened(self, held: Tensor, data: Stack) -> State:
        """Return the person's classes, and whether others are open and distances count."""
        far = enough(data).to(held.device, torch.float32)
        mass = torch.full_like(far, float(self._opens))
        return {HELD: held.float(), OPEN: torch.stack([mass, far], 1)}

    def _class_means(self, state: State, data: Stack) -> State:
        """Return the means of the person's classes in the embedding that is tested."""
        fused = self.predictor.expert(self.predicted_by(state), FUSED)
        means, spread = class_means(self.model, fused, data)
        return {MEANS: means, SPREAD: spread}

    def _weighed(self, state: State) -> State:
        """Return the person's weights, of what the people believe and its own samples show.

        An expert that was dropped for all has none here.
        """
        own = posterior(state[JUDGED], state[COMMON_WEIGHTS], ALPHA) * state[TRUST]
        left = own.sum(1, keepdim=True)
        weights = torch.where(left > 0, own / left, state[COMMON_WEIGHTS])
        return state | {WEIGHTS: weights}

    def _each(self, state: State, judged: Stack) -> Tensor:
        """Return the experts' probabilities now, ``[clients, samples, experts, classes]``.

        Not those of their means, which lag behind: the expert that learns faster would lose.
        """
        mixture = self.predictor
        params = self.personal(state)
        with torch.no_grad():
            seen = inputs(judged.x, judged.scale)
            return mixture.stacked(*mixture.each(params, seen))


def _received(received: Received, name: str, before: Tensor) -> Tensor:
    """Return the numbers of the experts that downloads bring; where they bring none, as before."""
    numbers = before.clone()
    for i, bundle in enumerate(received):
        part = bundle.tensors.get(name)
        if isinstance(part, Floats) and part.values.sum() > 0:
            numbers[i] = torch.from_numpy(np.array(part.values))
    return numbers


def _where(which: Tensor, new: Params, old: Params) -> Params:
    """Return `new` tensors of the clients where `which` [clients] is true, `old` of the others."""
    if which.all():
        return new
    if not which.any():
        return old
    return {name: torch.where(per_client(which, t), new[name], t) for name, t in old.items()}
