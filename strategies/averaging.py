"""Means of tensors over clients' uploads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from fedsub_core.wire.bundles import Bundle


def weighted_mean(uploads: Mapping[str, Bundle], names: Iterable[str]) -> dict[str, Tensor]:
    """Return the mean of each whole tensor in `names`, each client weighted by its samples.

    McMahan et al. 2017, eq. 4: ``sum(n_i * x_i) / sum(n_i)`` over the uploads of a round.
    """
    total = sum(upload.examples for upload in uploads.values())
    means: dict[str, Tensor] = {}
    for name in names:
        for upload in uploads.values():
            values = torch.from_numpy(upload.floats(name).copy())
            mean = means.setdefault(name, torch.zeros_like(values))
            mean.add_(values, alpha=upload.examples / total)
    return means
