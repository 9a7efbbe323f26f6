"""Layers of one model brought to the units of another by optimal transport (SubFLOT's base).

Source: Singh and Jaggi, Model Fusion via Optimal Transport, NeurIPS 2020: units of a layer are
moved to those of another model whose weights are nearest, the next layer's inputs with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedsub_core.extras import require

#: Of the mean cost, how much entropy smooths a plan by Sinkhorn; and its iterations.
SMOOTH, ITERATIONS = 0.05, 100


def plan(cost: Tensor, exact: bool = True) -> Tensor:
    """Return the plan ``[n, m]`` of least cost whose rows sum to 1/n and columns to 1/m, float64.

    Parameters
    ----------
    cost : of moving a unit of n to one of m, ``[n, m]``.
    exact : by the network simplex of POT; else by Sinkhorn's iterations (Cuturi, NeurIPS 2013).
    """
    n, m = cost.shape
    if exact:
        import ot

        found = ot.emd([1 / n] * n, [1 / m] * m, cost.double().numpy(), numItermax=10**7)
        return torch.from_numpy(found)
    kernel = cost.double() / -(SMOOTH * cost.double().mean()).clamp_min(1e-300)
    rows, columns = kernel.new_zeros(n), kernel.new_zeros(m)
    for _ in range(ITERATIONS):
        rows = -(kernel + columns).logsumexp(1) - torch.tensor(float(n)).log()
        columns = -(kernel + rows.unsqueeze(1)).logsumexp(0) - torch.tensor(float(m)).log()
    return (kernel + rows.unsqueeze(1) + columns).exp()


def check_plan(exact: bool) -> None:
    """Raise ConfigError where exact plans need a package that is not installed."""
    if exact:
        require("subflot.plan = exact", "ot")


def aligned(
    source: Mapping[str, Tensor],
    target: Mapping[str, Tensor],
    layers: Sequence[str],
    keep_sums: bool = False,
    exact: bool = True,
) -> dict[str, Tensor]:
    """Return the source's layers with as many units as the target's, each near the target's.

    From input to output: a layer's inputs follow the plan of the layer before it, then its own
    units are matched by the distance of their weights and biases side by side. A new unit is the
    mean of the units that the plan brings to it. Inputs and outputs of the model stay as they are.

    Parameters
    ----------
    source, target : ``<layer>.weight [units, inputs, *kernel]`` and ``<layer>.bias [units]``.
        Behind a flattening a unit owns several inputs in a row.
    layers : from input to output.
    keep_sums : whether a new unit's columns are the sum of those that they come from, so that the
        next layer sees as much; else their mean, as the paper's scaling has it.
    """
    found: dict[str, Tensor] = {}
    follows: Tensor | None = None
    for place, layer in enumerate(layers):
        weight, bias = source[f"{layer}.weight"].double(), source[f"{layer}.bias"].double()
        like, like_bias = target[f"{layer}.weight"].double(), target[f"{layer}.bias"].double()
        if follows is not None:
            by_unit = weight.reshape(len(weight), len(follows), -1)
            weight = torch.einsum("opk,pq->oqk", by_unit, follows)
        weight = weight.reshape(len(weight), *like.shape[1:])
        if place < len(layers) - 1:
            cost = torch.cdist(_beside(weight, bias), _beside(like, like_bias))
            moved = plan(cost, exact)
            share = moved * len(like)  # columns sum to 1
            weight = (share.T @ weight.flatten(1)).view_as(like)
            follows = share * (len(bias) / len(like_bias)) if keep_sums else share
            bias = share.T @ bias
        found[f"{layer}.weight"], found[f"{layer}.bias"] = weight.float(), bias.float()
    return found


def _beside(weight: Tensor, bias: Tensor) -> Tensor:
    return torch.cat([weight.flatten(1), bias.unsqueeze(1)], 1)
