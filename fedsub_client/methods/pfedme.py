"""pFedMe, the device half (Dinh et al. 2020, algorithm 1)."""

from __future__ import annotations

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Params
from fedsub_core.training import Batches, Gradient, Met, Turn


class PFedMeLearner(Learner):
    """The personal model solves each batch near the local one, which then follows it."""

    models = ("local", "personal")

    def check(self) -> None:
        """Refuse rates with which the models would overshoot."""
        outer, inner = self.settings.lr * self.hyper.lam, self.hyper.personal_lr * self.hyper.lam
        if outer >= 1 or inner >= 2:
            raise ConfigError(
                f"pfedme: got lr * lam = {outer:g} and personal-lr * lam = {inner:g}, expected "
                "below 1 and below 2, or the models overshoot; lower a rate or pfedme.lam"
            )

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Start both models from the global one; send the local one, keep the personal one."""
        state = self.receive(state, received)
        start = self.get(state, "local")
        hyper, gradient = self.hyper, Gradient(self.model, self.loss)
        rate = self.settings.rate(turn.round) * hyper.lam

        def step(rows: Params, batches: Batches) -> Met:
            local, personal = (self.get(rows, name) for name in self.models)
            for _ in range(hyper.personal_steps):
                found, met = gradient.value(personal, batches[0])
                for name, away in found.items():
                    away.add_(personal[name] - local[name], alpha=hyper.lam)
                    personal[name].sub_(away, alpha=hyper.personal_lr)
            for name, w in local.items():
                w.sub_(w - personal[name], alpha=rate)
            return met

        both = self.put(start, "local") | self.put(start, "personal")
        changed, loss = self.on_each_batch(both, data, turn, step)
        uploads = self.uploads(self.get(changed, "local"), data)
        return state | changed, uploads, reported(training_loss=loss)
