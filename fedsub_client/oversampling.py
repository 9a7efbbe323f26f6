"""SMOTE: classes made equally frequent with synthetic samples (Chawla et al. 2002).

Written out rather than taken from imbalanced-learn: the device needs neither it nor scikit-learn
otherwise, it refuses classes of no more samples than neighbours, and its one random state would
draw differently for each company of clients.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from fedsub_core.data.stacks import Stack
from fedsub_core.seeds import generator


def oversample(data: Stack, seed: int, neighbours: int = 5, drop_rare: bool = False) -> Stack:
    """Return each client's samples and, of every class it has, synthetic ones up to its largest.

    Parameters
    ----------
    seed : of the run; each client has a stream of its own, the same in every round.
    neighbours : k; of a class of n samples the nearest min(k, n - 1) are used.
    drop_rare : leave classes of up to k samples out, unless that would be all.
    """
    xs, ys = [], []
    for i, (client, count) in enumerate(zip(data.clients, data.counts, strict=True)):
        x, y = data.x[i, :count], data.y[i, :count]
        of_class = y.bincount()
        if drop_rare and (of_class > neighbours).any():
            kept = of_class[y] > neighbours
            x, y = x[kept], y[kept]
            of_class = y.bincount()
        own, most = generator(seed, client, 0, "synthetic samples"), int(of_class.max())
        for label in of_class.nonzero().flatten().tolist():
            made = synthetic(x[y == label], most - int(of_class[label]), neighbours, own)
            x, y = torch.cat([x, made]), torch.cat([y, y.new_full((len(made),), label)])
        xs.append(x)
        ys.append(y)
    counts = tuple(len(y) for y in ys)
    return Stack(
        data.clients, pad_sequence(xs, True), pad_sequence(ys, True), counts, data.capacities
    )


def synthetic(x: Tensor, count: int, neighbours: int, own: Generator) -> Tensor:
    """Return `count` samples like those of one class, ``x [n, *d]``.

    Each is ``x + u * (x_near - x)``: x any sample, x_near one of its nearest, u uniform in [0, 1).
    A single sample is copied.
    """
    base = torch.randint(len(x), (count,), generator=own).to(x.device)
    k = min(neighbours, len(x) - 1)
    if not k or not count:
        return x[base]
    distances = torch.cdist(x.flatten(1), x.flatten(1)).fill_diagonal_(torch.inf)
    near = distances.topk(k, largest=False).indices
    other = near[base, torch.randint(k, (count,), generator=own).to(x.device)]
    share = torch.rand(count, generator=own).to(x.device).view(-1, *[1] * (x.ndim - 1))
    return x[base] + share * (x[other] - x[base])
