"""What one client's subnetworks and scores may weigh in a fusion, measured by everybody's."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from strategies.fedsub.cache import Cache

#: Longest row of a layer, over the median of everybody's longest. Honest ones begin from one model
#: and differ by less. Rows are not compared unit by unit: fusions that fill up with zeros shrink
#: some of them.
LONGEST_ROW = 2.0


def bounded(cache: Cache, most_examples: float) -> Cache:
    """Return the cache with rows that are too long as long as the median, and great scores cut.

    A score of a class counts up to `most_examples` times the median of those who have one (0: any),
    as samples do in a mean. Where nothing is changed, the tensors are the very same.
    """
    if not cache.roster.clients:
        return cache
    tensors = dict(cache.tensors)
    for name, rows in cache.tensors.items():
        if name.startswith("rows."):
            lengths = torch.linalg.vector_norm(rows, dim=-1)
            excess = lengths / _most(lengths.amax(-1), LONGEST_ROW)
            if (excess > 1).any():
                # As long as the longest that is allowed, they would be so in every round, and with
                # them everybody's, by which the next round's are measured.
                usual = rows / (LONGEST_ROW * excess.clamp(min=1)).unsqueeze(-1)
                tensors[name] = torch.where((excess > 1).unsqueeze(-1), usual, rows)
    most = _most(tensors["omega"], most_examples)
    if most_examples and (tensors["omega"] > most).any():
        tensors["omega"] = torch.minimum(tensors["omega"], most.expand_as(tensors["omega"]))
    return replace(cache, tensors=tensors)


def _most(sizes: Tensor, factor: float) -> Tensor:
    """Return `factor` times the median over clients of the sizes above 0; where none is, 1."""
    median = torch.where(sizes > 0, sizes, torch.nan).nanmedian(0).values
    return torch.where(median.isnan(), 1.0, factor * median)
