"""FedDSE, the device half (Wang et al. 2024): trains the units that its own samples excite most."""

import torch

from fedsub_client.learner import Fitted, Received, State
from fedsub_core.data.stacks import Stack, select_params
from fedsub_core.models.units import units_at
from fedsub_core.training import Turn
from fedsub_papers.client.parts.activity import activity
from fedsub_papers.client.parts.slices import SliceLearner
from fedsub_papers.models.slicing import slice_groups


class FedDSELearner(SliceLearner):
    """Chooses among the units that it was sent, if these are more than it can train."""

    def arrived(self, state: State, received: Received, data: Stack, turn: Turn) -> State:
        """Adopt what is sent, and choose."""
        return self.chosen(self.receive(state, received), data)

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Adopt what is sent, choose, train the choice as a model of its own, send it back."""
        return self.trained(self.arrived(state, received, data, turn), received, data, turn)

    def chosen(self, state: State, data: Stack) -> State:
        """Return the state in which nobody holds more units than it can train."""
        share = data.capacities[0] if data.capacities else 1.0
        counts = {g.name: units_at(share, g.size) for g in slice_groups(self.model)}
        held = {name: state[f"units.{name}"] for name in counts}
        if not held:
            return state
        many = torch.stack([own.sum(1) > counts[name] for name, own in held.items()]).any(0)
        rows = many.nonzero().flatten().tolist()
        if not rows:
            return state
        some, size = select_params(self.get(state, "model"), rows), self.settings.batch_size
        often = self.hyper.statistic == "frequency"
        said = activity(self.model, some, data.select(rows), size, often)
        for name, scores in said.items():
            best = scores.argsort(dim=1, descending=True, stable=True)[:, : counts[name]]
            mask = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, best, True)
            held[name] = held[name].clone()
            held[name][rows] = mask
        return self.holding(state, {f"units.{name}": own for name, own in held.items()})
