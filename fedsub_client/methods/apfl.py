"""APFL, the device half (Deng et al. 2020, algorithm 1; eq. 10 for alpha)."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack, per_client
from fedsub_core.models.model import Params
from fedsub_core.training import Batches, Descent, Met, Turn


class APFLLearner(Learner):
    """Uses the mix ``alpha * own + (1 - alpha) * global``; state also ``alpha`` [clients]."""

    models = predict_by = ("global", "own")

    def init(self, clients: int, seed: int) -> State:
        """Return one shared start for both models, and the first alpha."""
        return super().init(clients, seed) | {"alpha": torch.full((clients,), self.hyper.alpha)}

    def personal(self, state: State) -> Params:
        """Return the mix."""
        alpha, shared = state["alpha"], self.get(state, "global")
        shares = {n: per_client(alpha, p) for n, p in shared.items()}
        own = self.get(state, "own").items()
        return {n: shares[n] * p + (1 - shares[n]) * shared[n] for n, p in own}

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train the global model as FedAvg does, and one's own by the mix's gradient."""
        state = self.receive(state, received)
        descent = Descent(self.model, self.loss, self.settings, turn)
        rate = self.settings.rate(turn.round)

        def step(rows: Params, batches: Batches) -> Met:
            (batch,), (shared, own) = batches, (self.get(rows, name) for name in self.models)
            alpha = rows["alpha"]
            descent.step(rows, "global", shared, batch)
            mix, before = self.personal(rows), {n: p - shared[n] for n, p in own.items()}
            # With respect to one's own model, the gradient is alpha times the mix's.
            scaled = replace(batch, weight=batch.weight * alpha.unsqueeze(1))
            met = descent.step(rows, "own", own, scaled, at=mix)
            if self.hyper.adaptive and batch.number == 0:
                slopes, _ = descent.gradient.value(mix, batch)
                for name, g in slopes.items():
                    alpha.sub_((before[name] * g).flatten(1).sum(1), alpha=rate)
                alpha.clamp_(0, 1)
            return met

        buffers = [descent.buffers(name, self.get(state, name)) for name in self.models]
        state, _ = self.on_each_batch(state, data, turn, step, buffers[0] | buffers[1])
        uploads = self.uploads(self.get(state, "global"), data)
        return state, uploads, reported(alpha=state["alpha"])
