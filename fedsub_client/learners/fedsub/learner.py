"""FedSub, the device half (Algorithm 1): integrate, train, prototypes, relevance, subnetworks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fedsub_client.learners.base import Learner, State
from fedsub_client.learners.fedsub.noise import (
    RELEASES,
    SECRET,
    PrototypeNoise,
    noise_ledger,
    release,
    spent_epsilon,
)
from fedsub_client.learners.fedsub.prototypes import content_hash, prototype_features, prototypes
from fedsub_client.learners.fedsub.relevance import unit_relevance
from fedsub_client.learners.fedsub.scores import class_scores
from fedsub_client.learners.fedsub.subnetworks import integrate, union_rows, unit_masks
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Model, Params
from fedsub_core.training.loop import TrainingSettings, train
from fedsub_core.wire.bundles import Download, Upload


class FedSubLearner(Learner):
    """Keeps a model of its own, of which the server replaces single units.

    State: the personal model's parameters; with prototype noise also the ledger of their releases.
    """

    def __init__(self, model: Model, settings: TrainingSettings, hyper: Any) -> None:
        super().__init__(model, settings, hyper)
        if hyper.depth > len(model.affine):
            raise ConfigError(
                f"fedsub.depth: got {hyper.depth}, expected at most {len(model.affine)}, the "
                "model's layers with units; 0 means all"
            )
        self.noise: PrototypeNoise | None = None
        if hyper.prototype_noise != "none":
            self.noise = PrototypeNoise(
                hyper.prototype_noise, hyper.prototype_clip, hyper.prototype_sigma
            )
        elif hyper.prototype_clip or hyper.prototype_sigma:
            raise ConfigError(
                "fedsub.prototype-noise: got 'none' beside a clip or sigma, expected gaussian or "
                "laplace; set one, or leave clip and sigma out"
            )

    def init(self, clients: int) -> State:
        """Return one shared model, and an empty ledger where prototypes get noise."""
        return super().init(clients) | (noise_ledger(clients) if self.noise else {})

    def receive(self, state: State, downloads: Sequence[Download]) -> State:
        """Replace the units that the downloads name, keep all others."""
        return state | integrate(self.model, self.params(state), downloads)

    def fit(
        self, state: State, downloads: Sequence[Download], data: Stack, round: int
    ) -> tuple[State, list[Upload]]:
        """Do one round of Algorithm 1 for every client of the stack."""
        params = self.params(self.receive(state, downloads))
        params = train(self.model, params, data, self.settings, round)
        features = prototype_features(self.model, params, data, self.hyper.prototype)
        rho, counts = prototypes(features, data, self.model.classes)
        versions = self._versions(state, data)
        state = state | params
        if self.noise is not None:
            # Where the data do not name the prototypes, every round releases new ones.
            names = [version or round for version in versions]
            seed = self.settings.seed
            state, rho = release(state, rho, self.noise, data.clients, seed, names)
        return state, self._uploads(params, downloads, data, rho, counts > 0, versions)

    def report(self, state: State) -> list[dict[str, float]]:
        """Return the privacy spent so far, epsilon at the configured delta, with noise only."""
        if self.noise is None:
            return super().report(state)
        return [
            {"epsilon": spent_epsilon(self.noise, int(n), self.hyper.prototype_delta)}
            for n in state[RELEASES]
        ]

    def _uploads(
        self,
        params: Params,
        downloads: Sequence[Download],
        data: Stack,
        rho: Tensor,
        held: Tensor,
        versions: Sequence[int],
    ) -> list[Upload]:
        hyper, model = self.hyper, self.model
        relevance, logits = unit_relevance(
            model, params, data, hyper.relevance, hyper.lrp_start, compile=hyper.compile
        )
        masks = unit_masks(relevance, held, hyper.depth)
        rows = union_rows(model, params, masks)
        chosen = {name: mask.cpu().numpy() for name, mask in masks.items()}
        scores = class_scores(hyper.score, logits, data).cpu().numpy()
        means, holds = rho.cpu().numpy(), held.cpu().numpy()
        uploads = []
        for i, (count, version) in enumerate(zip(data.counts, versions, strict=True)):
            labels = np.flatnonzero(holds[i])
            # The server says which version it holds, so a lost upload heals itself.
            known = version != 0 and downloads[i].prototype_version == version
            uploads.append(
                Upload(
                    examples=count,
                    layers=rows[i],
                    masks={name: mask[i, labels] for name, mask in chosen.items()},
                    labels=labels,
                    scores=scores[i, labels],
                    prototypes={} if known else {int(y): means[i, y] for y in labels},
                    prototype_version=version,
                )
            )
        return uploads

    def _versions(self, state: State, data: Stack) -> list[int]:
        """Name what the prototypes were computed from; 0 where that is more than the data."""
        if self.hyper.prototype != "input":
            return [0] * len(data.counts)
        # With noise, the name must not let the server test guesses about the data.
        secret = state.get(SECRET)
        key = b"" if secret is None or not secret.any() else secret.numpy().tobytes()
        # 63 bits, and never the 0 that means unknown.
        return [(value & (2**63 - 1)) or 1 for value in content_hash(data, key).tolist()]
