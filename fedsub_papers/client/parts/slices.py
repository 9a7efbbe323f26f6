"""What devices share whose messages say which units they have: these train as a small model.

State: the model, 0 where the device was not sent it; ``units.<group>`` bool [clients, size], which
units it was sent last. All of them before the first download.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Model, Params
from fedsub_core.models.units import Units, placements, units_in
from fedsub_core.placement import Placement
from fedsub_core.training import Trained, Turn, train
from fedsub_core.wire.bundles import Bundle, Part
from fedsub_papers.models.slicing import slice_groups, sliced_part

_UNITS = "units."


class SliceLearner(Learner):
    """Its model is the part that it received last, trained."""

    def init(self, clients: int, seed: int) -> State:
        """Return the shared start, of which all units are held."""
        each = {
            _UNITS + group.name: torch.ones(clients, group.size, dtype=torch.bool)
            for group in slice_groups(self.model)
        }
        return super().init(clients, seed) | each

    def receive(self, state: State, received: Received) -> State:
        """Adopt what is sent; what is not is 0."""
        state = super().receive(state, received)
        held = {name: t.clone() for name, t in state.items() if name.startswith(_UNITS)}
        for i, bundle in enumerate(received):
            for name, units in units_in(slice_groups(self.model), bundle.tensors).items():
                mine = held[_UNITS + name]
                mask = Placement(units).held(mine.shape[1:])
                mine[i] = torch.from_numpy(mask).to(mine.device)
        return self.holding(state, held)

    def holding(self, state: State, held: Mapping[str, torch.Tensor]) -> State:
        """Return the state in which clients hold these units alone, bool by ``units.<group>``."""
        params = self.get(state, "model")
        for group in slice_groups(self.model):
            mask = held[_UNITS + group.name]
            if mask.all():
                continue
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)  # its last is of no unit
            for member in group.members:
                name, axis = member.tensor, member.axis + 1
                if name not in self.model.parameter_shapes:
                    continue  # what stays at home, nobody else keeps
                own = mask[:, torch.from_numpy(member.owners)]
                shape = [1] * params[name].dim()
                shape[0], shape[axis] = len(own), own.shape[1]
                params[name] = params[name].where(own.view(shape), 0.0)
        return state | self.put(params, "model") | dict(held)

    def units(self, state: State, i: int) -> Units:
        """Return the units that the `i`-th client holds, ascending, by group."""
        return {
            group.name: state[_UNITS + group.name][i].cpu().numpy().nonzero()[0]
            for group in slice_groups(self.model)
        }

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Adopt what is sent, train it as a model of its own, send it back."""
        return self.trained(self.receive(state, received), received, data, turn)

    def trained(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train the units that are held and send them; clients of equal parts share a stack."""
        params = {name: t.clone() for name, t in self.get(state, "model").items()}
        held = [self.units(state, i) for i in range(len(data.clients))]
        uploads = [Bundle()] * len(held)
        losses = torch.zeros(len(held), device=data.x.device)
        alike: dict[tuple[Any, ...], list[int]] = {}
        for i, units in enumerate(held):
            same = (own.tobytes() for own in same_part(self.model, units).values())
            alike.setdefault((*same, self.stacked_by(received[i])), []).append(i)
        groups, shapes = self.model.unit_groups, self.model.tensor_shapes
        for rows in alike.values():
            model = part_of(self.model, held[rows[0]])
            places = [placements(groups, shapes, held[i]) for i in rows]
            own = {
                name: torch.stack([at[name].take(t[i]) for i, at in zip(rows, places, strict=True)])
                for name, t in params.items()
            }
            after, loss = self.train_part(model, own, received[rows[0]], data.select(rows), turn)
            losses[rows] = loss
            for j, (i, at) in enumerate(zip(rows, places, strict=True)):
                mine = {name: tensor[j] for name, tensor in after.items()}
                for name, tensor in mine.items():
                    at[name].put(params[name][i], tensor)
                uploads[i] = self.slice_of(mine, at, data.counts[i])
        state = state | self.put(params, "model")
        return state, uploads, reported(training_loss=losses)

    def stacked_by(self, received: Bundle) -> Any:
        """Return the part of a download that clients of one training stack must share."""
        return None

    def train_part(
        self, model: Model, params: Params, received: Bundle, data: Stack, turn: Turn
    ) -> Trained:
        """Train a part of the model, which several clients hold; see :meth:`stacked_by`."""
        return train(model, params, data, turn, self.settings, objective=self.loss)

    def slice_of(self, params: Params, places: Mapping[str, Placement], examples: int) -> Bundle:
        """Return an upload of one client's part, which says where its numbers stand."""
        parts = dict[str, Part]()
        for name in self.model.parameter_shapes:
            parts |= sliced_part(name, params[name].cpu().numpy(), places[name], self.sends[name])
        return Bundle(examples, tensors=parts)


def part_of(model: Model, units: Units) -> Model:
    """Return the model that has these units alone; see :func:`same_part`."""
    if all(len(units[group.name]) == group.size for group in slice_groups(model)):
        return model
    return model.narrow(same_part(model, units))[0]


def same_part(model: Model, units: Units) -> Units:
    """Return units of which the part is the same model: the first ones, as many of each group.

    But where units own constants of a module, these differ.
    """
    known = model.tensor_shapes
    return {
        group.name: np.arange(len(units[group.name]))
        if all(member.tensor in known for member in group.members)
        else units[group.name]
        for group in slice_groups(model)
    }
