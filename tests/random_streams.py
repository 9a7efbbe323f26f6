"""The streams of random numbers that a process has one of, seeded by a name."""

import random

import numpy as np
import torch

from fedsub_core.seeds import derive_seed


def seed_streams(name: str) -> None:
    """Seed Python's, NumPy's and PyTorch's own stream by a name."""
    seed = derive_seed(0, "", 0, name)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
