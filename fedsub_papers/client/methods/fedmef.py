"""FedMef, the device half (Huang et al. 2024): budget-aware extrusion before the mask moves."""

import torch

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.training import Pull, Turn
from fedsub_papers.client.parts.sparse import SparseLearner
from fedsub_papers.masks import lowest, share_of
from fedsub_papers.methods.fedmef import adjusts


class FedMefLearner(SparseLearner):
    """Trains the sparse model; before a move what would be pruned is pulled to 0."""

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train under the mask; before a move send the gradient of one batch, too."""
        state = self.receive(state, received)
        params, masks = self.get(state, "model"), self.masks(state)
        adjusting = adjusts(self.hyper, turn.round, turn.rounds)
        objective = self.loss + self.extrusion(params, masks) if adjusting else self.loss
        params, loss = self.train_masked(params, masks, data, turn, objective=objective)
        grown = self.gradients(params, data, turn) if adjusting else {}
        uploads = self.sparse_uploads(params, masks, data, beside=grown)
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)

    def extrusion(self, params: Params, masks: Params) -> Pull:
        """Return ``lam * sum(w**2)`` over the smallest active weights of each layer."""
        low: Params = {}
        for name, mask in masks.items():
            sizes, rate = params[name].abs(), self.hyper.rate
            each = zip(sizes, mask, strict=True)
            low[name] = torch.stack([lowest(w, m, share_of(int(m.sum()), rate)) for w, m in each])
        zeros = {name: torch.zeros_like(params[name]) for name in masks}
        return Pull(zeros, 2 * self.hyper.lam, {n: where.float() for n, where in low.items()})
