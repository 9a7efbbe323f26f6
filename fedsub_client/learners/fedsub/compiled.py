"""The relevance pass compiled, where torch.compile works; one logged line where it does not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from fedsub_client.learners.fedsub.relevance_pass import class_sums
from fedsub_core.models.chain import Model, Params

Pass = Callable[[Params, Tensor, Tensor], tuple[list[Tensor], Tensor]]

_LOG = logging.getLogger("fedsub")
_LOCK = threading.Lock()
_PASSES: dict[Hashable, Pass | None] = {}


def compiled_pass(
    model: Model, parts: Params, x: Tensor, samples: int, rule: str, start: str
) -> Pass | None:
    """Return :func:`class_sums` compiled for one client and any number of samples above 1, or None.

    Compiled once per process and model, by the first thread that asks; others wait for it. None
    where nothing can be compiled, such as on a machine without a C++ compiler: the first time, one
    line says so, and the caller goes on without.

    Parameters
    ----------
    parts : one stack's, as :func:`class_sums` wants them; `x` is the stack's, for shapes and type.
    samples : of a block.
    """

    def one_block(parts: Params, x: Tensor, of_class: Tensor) -> tuple[list[Tensor], Tensor]:
        return class_sums(model, parts, x, of_class, rule, start)

    block_x = x.new_zeros(1, max(samples, 2), *x.shape[2:])
    of_class = x.new_zeros(1, max(samples, 2), model.classes)
    for tensor in (block_x, of_class):
        torch._dynamo.mark_dynamic(tensor, 1)
    one = {name: tensor[0].unsqueeze(0) for name, tensor in parts.items()}
    key = (model, rule, start, x.dtype)
    with _LOCK:
        if key not in _PASSES:
            _PASSES[key] = _try(one_block, (one, block_x, of_class))
        return _PASSES[key]


def _try(function: Pass, example: tuple[Params, Tensor, Tensor]) -> Pass | None:
    try:
        fast = torch.compile(function, fullgraph=True)
        fast(*example)
    except Exception as error:  # the compiler's errors share no narrower base
        if None not in _PASSES.values():
            reason = str(error).strip().splitlines()[:1] or [""]
            _LOG.warning(
                "relevance runs uncompiled, with the same results: %s: %s",
                type(error).__name__,
                reason[0],
            )
        return None
    return fast
