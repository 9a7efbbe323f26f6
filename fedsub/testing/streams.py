"""Where the streams of random numbers are that a process has one of: no method draws from them."""

from __future__ import annotations

import random

import numpy as np
import torch


def positions() -> tuple[object, ...]:
    """Return where the streams are: equal before and after what does not draw from them."""
    numpys = np.random.get_state(legacy=False)
    at = (bytes(numpys["state"]["key"]), numpys["state"]["pos"], numpys["has_gauss"])
    return (random.getstate(), at, bytes(torch.random.get_rng_state().numpy()))
