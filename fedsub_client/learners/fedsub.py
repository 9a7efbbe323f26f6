"""FedSub, the device half (Algorithm 1): integrate, train, prototypes, relevance, subnetworks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsub_client.learners.base import Learner, State
from fedsub_client.prototypes import content_hash, prototype_features, prototypes
from fedsub_client.relevance import unit_relevance
from fedsub_client.scores import class_scores
from fedsub_client.subnetworks import integrate, union_rows, unit_masks
from fedsub_core.messages import Download, Upload
from fedsub_core.models import Params
from fedsub_core.stacks import Stack
from fedsub_core.training import train


class FedSubLearner(Learner):
    """Keeps a model of its own, of which the server replaces single units.

    State: the personal model's parameters, nothing else.
    """

    def receive(self, state: State, downloads: Sequence[Download]) -> State:
        """Replace the units that the downloads name, keep all others."""
        return state | integrate(self.model, self.params(state), downloads)

    def fit(
        self, state: State, downloads: Sequence[Download], data: Stack, round: int
    ) -> tuple[State, list[Upload]]:
        """Do one round of Algorithm 1 for every client of the stack."""
        params = self.params(self.receive(state, downloads))
        params = train(self.model, params, data, self.settings, round)
        return state | params, self._uploads(params, downloads, data)

    def _uploads(self, params: Params, downloads: Sequence[Download], data: Stack) -> list[Upload]:
        hyper, model = self.hyper, self.model
        relevance, logits = unit_relevance(
            model, params, data, hyper.relevance, hyper.lrp_start, compile=hyper.compile
        )
        features = prototype_features(model, params, data, hyper.prototype)
        rho, counts = prototypes(features, data, model.classes)
        held = counts > 0
        masks = unit_masks(relevance, held, hyper.depth)
        rows = union_rows(model, params, masks)
        chosen = {name: mask.cpu().numpy() for name, mask in masks.items()}
        scores = class_scores(hyper.score, logits, data).cpu().numpy()
        means, holds = rho.cpu().numpy(), held.cpu().numpy()
        versions = self._versions(data)
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

    def _versions(self, data: Stack) -> list[int]:
        """Name what the prototypes were computed from; 0 where that is more than the data."""
        if self.hyper.prototype != "input":
            return [0] * len(data.counts)
        # 63 bits, and never the 0 that means unknown.
        return [(value & (2**63 - 1)) or 1 for value in content_hash(data).tolist()]
