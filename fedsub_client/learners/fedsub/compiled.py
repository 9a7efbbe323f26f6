"""torch.compile where it works, and None with one logged line where it does not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Any

import torch

_LOG = logging.getLogger("fedsub")
_LOCK = threading.Lock()
_FUNCTIONS: dict[Hashable, Callable[..., Any] | None] = {}


def compiled(
    key: Hashable, function: Callable[..., Any], example: tuple[Any, ...]
) -> Callable[..., Any] | None:
    """Return `function` compiled for arguments like `example`, or None.

    Compiled for the shapes of `example`, but for axes that it marks as dynamic
    (``torch._dynamo.mark_dynamic``), once per process and `key`, by the first thread that asks;
    others wait for it. None where nothing can be compiled, such as on a machine without a C++
    compiler: the first time, one line says so, and the caller goes on without.
    """
    with _LOCK:
        if key not in _FUNCTIONS:
            _FUNCTIONS[key] = _try(function, example)
        return _FUNCTIONS[key]


def _try(function: Callable[..., Any], example: tuple[Any, ...]) -> Callable[..., Any] | None:
    try:
        fast = torch.compile(function, fullgraph=True)
        fast(*example)
    except Exception as error:  # the compiler's errors share no narrower base
        if None not in _FUNCTIONS.values():
            reason = str(error).strip().splitlines()[:1] or [""]
            _LOG.warning(
                "relevance runs uncompiled, with the same results: %s: %s",
                type(error).__name__,
                reason[0],
            )
        return None
    return fast
