"""Passes of many clients as one, by ``torch.func.vmap``: on a GPU, where a module allows it.

A GPU needs about as long for one client's small batch as for a hundred clients'. A CPU's core is
busy with one, whose numbers then stay in its cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.func import vmap

from fedsub_core.models.model import Params

log = logging.getLogger("fedsub")

#: Makes logits, and what the watched layer saw, of one client's numbers and samples.
Call = Callable[[Params, Tensor], tuple[Tensor, Tensor]]
#: Share of a GPU's memory that the layers' values of one pass may take.
SHARE = 0.25


def each_alone(call: Call, params: Params, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the results of `call` for each client, one after another, stacked."""
    made = [call(own, x[i]) for i, own in enumerate(each(params))]
    logits, seen = zip(*made, strict=True)
    return torch.stack(logits), torch.stack(seen)


def all_together(call: Call, params: Params, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the results of :func:`each_alone`, but for rounding, of all clients at once."""
    made: tuple[Tensor, Tensor] = vmap(call)(params, x)
    return made


def against(call: Call, params: Params, x: Tensor) -> str:
    """Return the reason against passing clients together; "" where there is none.

    It is tried: both ways must make the same, and leave `params` the same.

    Parameters
    ----------
    params, x : of a few clients, for the trial.
    """
    alone, beside = ({n: t.clone() for n, t in params.items()} for _ in range(2))
    with torch.no_grad():
        expected = each_alone(call, alone, x)
        try:
            got = all_together(call, beside, x)
        except Exception as error:  # whatever somebody's module raises
            return f"vmap: {str(error).removeprefix('vmap: ').splitlines()[0].partition('. ')[0]}"
    pairs = [*zip(got, expected, strict=True), *((beside[n], alone[n]) for n in params)]
    return "" if all(_close(*pair) for pair in pairs) else "vmap makes other numbers of it"


def _close(one: Tensor, other: Tensor) -> bool:
    largest = float(other.double().abs().max()) if other.numel() else 0.0
    # A GPU's convolutions may round to ten bits.
    return torch.allclose(one.double(), other.double(), rtol=1e-2, atol=1e-2 * largest)


def most_together(x: Tensor, values: int) -> int:
    """Return how many clients pass at once at most, on the GPU that `x` is on.

    Parameters
    ----------
    x : ``[clients, samples, *features]``.
    values : numbers that the layers make of a sample.
    """
    memory = torch.cuda.get_device_properties(x.device).total_memory
    return max(1, int(SHARE * memory) // (4 * values * max(1, x.shape[1])))


def each(params: Params) -> list[Params]:
    """Return each client's tensors, without a client axis, as views."""
    rows = {name: tensor.unbind(0) for name, tensor in params.items()}
    clients = len(next(iter(rows.values())))
    return [{name: own[i] for name, own in rows.items()} for i in range(clients)]


@cache
def say(model: str, why_not: str) -> None:
    """Name in the log how clients pass through a model, once in a process."""
    how = f"one after another ({why_not})" if why_not else "together"
    log.info("clients pass through %s %s", model, how)
