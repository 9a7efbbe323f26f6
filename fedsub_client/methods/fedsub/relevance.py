"""Relevance of every unit for every class, of a stack of clients (FedSub eq. 2, 4, 5).

One forward and one backward relevance pass over the local data. On a CPU the passes go client by
client in blocks of samples whose intermediate results stay in the cache; a client's relevance
then depends on nobody else in its stack, to the last bit. On other devices the whole stack is one
block.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from fedsub_client.methods.fedsub.lrp import require_support, signed_parts
from fedsub_client.methods.fedsub.module_relevance import module_sums
from fedsub_client.methods.fedsub.relevance_pass import RULES, class_sums
from fedsub_core.backend import for_relevance
from fedsub_core.cores import each
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.errors import ConfigError
from fedsub_core.kernels.chains import relevance_sums
from fedsub_core.kernels.library import Kernels
from fedsub_core.methods.fedsub import LRP_STARTS, RELEVANCE_RULES
from fedsub_core.models.chain import Chain
from fedsub_core.models.model import Model, Params

# float32 values of a block's widest layer: 384 samples of the papers' model. Smaller blocks pay
# for calls, larger ones for leaving the cache; below LEAST_SAMPLES calls are what costs more.
BLOCK_VALUES, LEAST_SAMPLES = 3 * 2**16, 128
#: Samples of a client that go through the compiled kernels at once: idle threads take others.
PART = 2048
#: What :func:`class_sums` returns.
_Sums = tuple[list[Tensor], Tensor]


def unit_relevance(
    model: Model, params: Params, data: Stack, rule: str, start: str
) -> tuple[dict[str, Tensor], Tensor]:
    """Return each unit's relevance for each class, and the logits it came from.

    Parameters
    ----------
    rule : ``naive`` (mean activation, eq. 2), ``lrp-a1b0`` (eq. 4) or ``lrp-a2b1`` (eq. 5).
    start : relevance starts from ``logits`` (ReLU of all of them) or ``target`` (the true class).

    Returns
    -------
    relevance : dict of layer name to float32 [clients, classes, units]
        Mean over the client's samples of the class, zero where it has none. A convolution's unit
        is a channel: its relevance is summed over positions (``naive``: averaged).
    logits : float32 [clients, samples, classes]
        Zero where `data` is padded.
    """
    for value, known in ((rule, RELEVANCE_RULES), (start, LRP_STARTS)):
        if value not in known:
            raise ConfigError(f"relevance: got {value!r}, expected one of {', '.join(known)}")
    if isinstance(model, Chain):
        require_support(model)
    with torch.no_grad():
        if not isinstance(model, Chain):
            sums, logits = _in_blocks(model, params, data, rule, start)
        elif (kernels := for_relevance(model.known, data.x).kernels) is not None:
            sums, logits = _compiled(kernels, model, params, data, rule, start)
        else:
            parts = params if rule == "naive" else signed_parts(model, params)
            if data.x.device.type != "cpu":
                seen = inputs(data.x, data.scale)
                of_class = data.of_class(model.classes).to(torch.float32)
                sums, logits = class_sums(model, parts, seen, of_class, rule, start)
                logits *= data.valid.unsqueeze(2)
            else:
                sums, logits = _in_blocks(model, parts, data, rule, start)
        per_class = data.class_counts(model.classes).clamp(min=1).unsqueeze(2)
        means = {layer.name: s / per_class for layer, s in zip(model.affine, sums, strict=True)}
    return means, logits


def representatives(data: Stack, most: int) -> Stack:
    """Return at most `most` samples of each class of each client; 0: all.

    Evenly spread over the class in the order of the file, so that they stand for all of its time;
    the same every round while the data stay.
    """
    counts = data.class_counts()
    if not most or int(counts.max()) <= most:
        return data

    def few() -> Stack:
        place, count = data.place_in_class(), counts.gather(1, data.y).clamp(min=1)
        kept = count.clamp(max=most)
        # Those at which the share of `kept` that has been passed reaches a whole number.
        return data.part(data.valid & ((place + 1) * kept // count > place * kept // count))

    return data.once(("representatives", most), few)


def block_samples(model: Model) -> int:
    """Return the number of samples of a block: few enough for the cache, enough to pay calls."""
    return max(LEAST_SAMPLES, BLOCK_VALUES // model.widest)


def _compiled(
    kernels: Kernels, model: Chain, params: Params, data: Stack, rule: str, start: str
) -> _Sums:
    """:func:`class_sums` by the compiled kernels."""
    weights, target = RULES.get(rule), start == "target"
    alpha_beta = (weights.alpha, weights.beta) if weights else None

    def sums_of(params: Params, x: Tensor, y: Tensor, counts: Sequence[int]) -> _Sums:
        return relevance_sums(kernels, model.known, params, x, y, counts, alpha_beta, target)

    if max(data.counts) <= PART:
        return sums_of(params, data.x, data.y, data.counts)
    clients, samples = data.y.shape
    sums = [data.x.new_zeros(clients, model.classes, layer.units) for layer in model.affine]
    logits = data.x.new_zeros(clients, samples, model.classes)
    for c, count in enumerate(data.counts):
        mine = {name: tensor[c : c + 1] for name, tensor in params.items()}

        def part_of(part: slice, c: int = c, mine: Params = mine) -> _Sums:
            y = data.y[c : c + 1, part]
            return sums_of(mine, data.x[c : c + 1, part], y, [y.shape[1]])

        parts = _equal_parts(count, PART)
        for part, made in zip(parts, each(part_of, parts), strict=True):
            logits[c, part] = made[1][0]
            for total, more in zip(sums, made[0], strict=True):
                total[c].add_(more[0])
    return sums, logits


def _in_blocks(
    model: Model,
    parts: Params,
    data: Stack,
    rule: str,
    start: str,
) -> tuple[list[Tensor], Tensor]:
    """:func:`class_sums`, client by client and block by block, padding left out."""
    sums_of = class_sums if isinstance(model, Chain) else module_sums
    of_class = data.of_class(model.classes).to(torch.float32)
    size = block_samples(model)
    clients, samples = data.y.shape
    sums = [of_class.new_zeros(clients, model.classes, layer.units) for layer in model.affine]
    logits = of_class.new_zeros(clients, samples, model.classes)
    for c, count in enumerate(data.counts):
        scale = None if data.scale is None else data.scale[c : c + 1]
        mine = {name: tensor[c].unsqueeze(0) for name, tensor in parts.items()}

        def block(
            part: slice, c: int = c, mine: Params = mine, scale: Tensor | None = scale
        ) -> list[Tensor]:
            x, in_class = inputs(data.x[c : c + 1, part], scale), of_class[c, part].unsqueeze(0)
            with torch.no_grad():  # of its thread alone
                more, out = sums_of(model, mine, x, in_class, rule, start)  # type: ignore[arg-type]
            logits[c, part] = out[0]
            return more

        # Summed in the order of the blocks, whoever was done first.
        for more in each(block, _equal_parts(count, size)):
            for total, add in zip(sums, more, strict=True):
                total[c].add_(add[0])
    return sums, logits


def _equal_parts(count: int, most: int) -> list[slice]:
    """Cut ``range(count)`` into as few parts of at most `most` as can be, about equally long."""
    parts = -(-count // most)  # none of no samples
    ends = [count * i // parts for i in range(parts + 1)] if parts else []
    return [slice(begin, end) for begin, end in pairwise(ends)]
