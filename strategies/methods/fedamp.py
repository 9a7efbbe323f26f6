"""FedAMP, the server half (Huang et al. 2021): of every client's model its own mean with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.errors import ConfigError
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.clipping import MOST_ADDED
from strategies.parts.distances import cosine_distances, flattened, squared_distances
from strategies.parts.last_models import PAIRS, LastModelsServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

#: Where others weigh no more than this in anybody's mean, nobody hears of anybody.
NOTHING = 1e-6


def gauss(x: Tensor, alpha: float, sigma: float) -> Tensor:
    """Return ``alpha * exp(-||w_i - w_j||**2 / sigma) / sigma`` of models ``x [n, numbers]``.

    Float64 [n, n]; 0 on the diagonal, rows that sum to more than 1 are scaled to 1. The derivative
    of Huang et al.'s ``A(d) = 1 - exp(-d / sigma)``, times alpha.
    """
    weights = squared_distances(x).div_(-sigma).exp_().mul_(alpha / sigma).fill_diagonal_(0)
    return weights / weights.sum(1, keepdim=True).clamp(min=1)


def cosine(x: Tensor, sigma: float, own: float) -> Tensor:
    """Return ``(1 - own) * softmax_j(sigma * cos(w_i, w_j))`` over the others, float64 [n, n].

    `own` is each model's share in its own mean, 0 stands for 1 / n. Huang et al. 2021, HeurFedAMP.
    """
    if len(x) < 2:
        return x.new_zeros(len(x), len(x), dtype=torch.float64)
    nearness = (1 - cosine_distances(x)).mul_(sigma).fill_diagonal_(-torch.inf)
    return (1 - (own or 1 / len(x))) * nearness.softmax(1)


def shortened(weights: Tensor, x: Tensor) -> Tensor:
    """Return weights by which nobody pulls anybody much farther than the median of all does.

    As ``clip`` of :mod:`strategies.parts.averaging`, seen from every client's own model.
    """
    away = squared_distances(x).sqrt_()
    others = away.clone().fill_diagonal_(torch.nan)
    longest = MOST_ADDED * others.nanmedian(1, keepdim=True).values
    return torch.where(away > longest, weights * longest / away, weights)


class FedAMPServer(LastModelsServer):
    """Every client's download is ``u_i = w_i + sum_j xi_ij * (w_j - w_i)``; ``pairs`` are xi."""

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        robust = settings.robust
        if robust.multi_krum or robust.mean != "mean":
            got = robust.mean if robust.mean != "mean" else "multi-krum"
            raise ConfigError(
                f"robust: got {got!r} with fedamp, in which everybody's mean has weights of its "
                "own; expected clip or none"
            )

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Keep the round's models, and weigh everybody's against everybody's anew."""
        state = self.updated(state, uploads)
        x, hyper = flattened(self.models(state)), self.hyper
        if hyper.similarity == "gauss":
            weights = gauss(x, hyper.alpha, hyper.gauss_sigma)
        else:
            weights = cosine(x, hyper.cosine_sigma, hyper.own_weight)
        if self.settings.robust.clip:
            weights = shortened(weights, x)
        others = weights.sum(1)
        if len(x) > 1 and others.max() < NOTHING:
            round.log.warning(
                "fedamp: other models weigh less than %.1g in anybody's mean: it has become local. "
                "Set fedamp.similarity=cosine, or raise fedamp.gauss-sigma",
                NOTHING,
            )
        each = zip(self.roster(state).clients, others.tolist(), strict=True)
        rows = [MetricRow(round.number, client, None, "weight_of_others", w) for client, w in each]
        return state | {PAIRS: weights}, rows

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody its own mean; who never sent a model, the mean of all or the start."""
        place = self.roster(state).place
        known = [client for client in clients if client in place]
        rows, models = [place[client] for client in known], self.models(state)
        # Rows sum to 0, so that models that are equal, or weigh nothing, stay to the bit.
        moves = (state[PAIRS] - state[PAIRS].sum(1).diag())[rows].float()
        means = {n: t[rows] + torch.tensordot(moves, t - t[:1], 1) for n, t in models.items()}
        bundles = {client: _row(means, i) for i, client in enumerate(known)}
        everybodys = {name: tensor.mean(0, keepdim=True) for name, tensor in models.items()}
        drawn = round.model.init(1, self.settings.rounds.seed)
        start = {name: drawn[name] for name in round.model.parameter_shapes}
        others = _row(everybodys if place else start, 0)
        return [bundles.get(client, others) for client in clients]


def _row(models: State, i: int) -> Bundle:
    return Bundle(tensors={name: Floats(tensor[i].numpy()) for name, tensor in models.items()})
