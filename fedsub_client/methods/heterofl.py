"""HeteroFL, the device half (Diao et al. 2021): FedAvg on the device's own part of the model."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Params
from fedsub_core.training.objectives import Masked
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import BoolArray, Bundle, Floats


class HeteroFLLearner(Learner):
    """Its model is the part that it received last, trained."""

    def check(self) -> None:
        """Refuse a masked loss where the last layer has not a unit a class."""
        shapes, classes = self.model.parameter_shapes, self.model.classes
        if self.hyper.masked_loss and any(shapes[name][0] != classes for name in self._last):
            raise ConfigError(
                f"masked-loss: got true with a model whose last layer is {self._last[0]} "
                f"{shapes[self._last[0]]}, expected a Linear layer of {classes} classes at its "
                "end, or masked-loss = false"
            )

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Adopt what is sent, train it, send back what was trained."""
        state = self.receive(state, received)
        begun, objective = self.get(state, "model"), self.loss
        start, rows = begun, self._rows(data)
        if rows:
            # A row of zeros that stays zero gives logits of 0, and nothing to the layers below.
            start = begun | {name: begun[name] * row for name, row in rows.items()}
            objective = self.loss + Masked(rows)
        params, loss = self.train(start, data, turn, objective=objective)
        params |= {n: torch.where(row > 0, params[n], begun[n]) for n, row in rows.items()}
        uploads = self.uploads(params, data)
        if rows:
            held = self._held(data).cpu().numpy()
            uploads = [self._of_classes(*one) for one in zip(uploads, held, strict=True)]
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)

    @property
    def _last(self) -> tuple[str, ...]:
        return self.model.parameters_of(self.model.layer_names[-1:])

    def _held(self, data: Stack) -> Tensor:
        return data.holds(self.model.classes)

    def _rows(self, data: Stack) -> Params:
        """Return, with a masked loss, 1 in the last layer's rows of clients' classes, else 0."""
        if not self.hyper.masked_loss:
            return {}
        held, shapes = self._held(data).float(), self.model.parameter_shapes
        each = {name: held.view(*held.shape, *[1] * (len(shapes[name]) - 1)) for name in self._last}
        return {name: row.expand(-1, *shapes[name]).clone() for name, row in each.items()}

    def _of_classes(self, upload: Bundle, classes: BoolArray) -> Bundle:
        """Return an upload with the last layer's rows of the `classes` alone, bool [classes]."""
        tensors = dict(upload.tensors)
        for name in self._last:
            tensors[name] = Floats.rows(classes, upload.floats(name)[classes])
        return replace(upload, tensors=tensors)
