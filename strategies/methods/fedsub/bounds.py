"""What one client's subnetworks and scores may weigh in a fusion, measured by everybody's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.holdings import Holdings

#: In a state: of each layer the length by which the last round's rows were bounded, float32.
LONGEST = "longest"
#: Longest row of a layer, over that length. Honest ones begin from one model and differ by less.
#: Rows are not compared unit by unit: fusions that fill up with zeros shrink some of them.
LONGEST_ROW = 2.0
#: By what a fusion alone may lengthen the median in a round. Honest people's did by 1.0026 in the
#: mean of 300 rounds: means of skewed lengths are beyond their median.
LONGER = 1.003


def begun(cache: Cache, sent: Mapping[str, Bundle], holdings: Holdings | None = None) -> Tensor:
    """Return the longest row that everybody began a round with, float32 [n, layers]; 0: none.

    `cache` is what was known before the round, `sent` what some clients were sent at its beginning,
    in the places of the whole model; `holdings` what of it each holds: rows of a part are as much
    longer as whole ones have more numbers. None: everybody all.
    """
    longest = []
    for name, rows in _layers(cache).items():
        lengths = _lengths(name, rows, holdings).numpy()
        for client, i in cache.roster.place.items():
            part = sent[client].tensors.get(name) if client in sent else None
            if isinstance(part, Floats):
                values = torch.from_numpy(part.values)
                stretch = (rows.shape[-1] / values.shape[-1]) ** 0.5
                units = slice(None) if part.at.rows is None else part.at.rows
                lengths[i, units] = torch.linalg.vector_norm(values, dim=-1) * stretch
        longest.append(torch.from_numpy(lengths.max(-1)))
    return torch.stack(longest, dim=1)


def bounded(
    cache: Cache,
    most_examples: float,
    before: Tensor | None = None,
    start: Tensor | None = None,
    holdings: Holdings | None = None,
) -> tuple[Cache, Tensor]:
    """Return the cache with rows that are too long as long as is usual, and great scores cut.

    A score of a class counts up to `most_examples` times the median of those who have one (0: any),
    as samples do in a mean. Where nothing is changed, the tensors are the very same.

    Parameters
    ----------
    before : float32 [layers], the lengths that were usual in the last round; none in the first.
    start : float32 [n, layers], see :func:`begun`, 0 for who is new.
    holdings : see :func:`begun`.

    Returns
    -------
    cache : as said.
    usual : float32 [layers], the usual lengths of this round: the median of everybody's longest,
        but beyond the last ones only what training made of it, not fusion. Who sent rows that are
        nearly too long would else lengthen everybody's, by which the next round's were measured.
    """
    tensors, usual_lengths = dict(cache.tensors), []
    for layer, (name, rows) in enumerate(_layers(cache).items()):
        lengths = _lengths(name, rows, holdings)
        longest = lengths.amax(-1)
        usual = median(longest)
        if before is not None and start is not None and before[layer] > 0:
            known = start[:, layer] > 0
            trained = median(longest[known]) / median(start[known, layer])
            usual = torch.minimum(usual, before[layer] * trained.nan_to_num(1.0).clamp(min=LONGER))
        usual_lengths.append(usual.nan_to_num(0.0))
        over = lengths > LONGEST_ROW * usual
        if over.any():
            # As long as the longest that is allowed, they would be so in every round.
            shorter = rows * (usual / lengths).unsqueeze(-1)
            tensors[f"rows.{name}"] = torch.where(over.unsqueeze(-1), shorter, rows)
    most = most_examples * median(tensors["omega"]).nan_to_num(1.0)
    if most_examples and (tensors["omega"] > most).any():
        tensors["omega"] = torch.minimum(tensors["omega"], most.expand_as(tensors["omega"]))
    return replace(cache, tensors=tensors), torch.stack(usual_lengths)


def _lengths(name: str, rows: Tensor, holdings: Holdings | None) -> Tensor:
    """Return the length of each row of a layer [n, units], of a part as if it were whole."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return lengths * holdings.stretch(name, rows.shape[-1])[:, None] if holdings else lengths


def _layers(cache: Cache) -> dict[str, Tensor]:
    rows = {name: t for name, t in cache.tensors.items() if name.startswith("rows.")}
    return {name.removeprefix("rows."): tensor for name, tensor in rows.items()}


def median(sizes: Tensor) -> Tensor:
    """Return the median over clients of the sizes above 0; NaN where none is."""
    if not len(sizes):
        return sizes.new_full(sizes.shape[1:], torch.nan)
    return torch.where(sizes > 0, sizes, torch.nan).nanmedian(0).values
