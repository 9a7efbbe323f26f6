"""Randomness as an argument: every stream has a seed derived from what it is for."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


def derive_seed(run_seed: int, client: str, round: int, purpose: str) -> int:
    """Return a seed in [0, 2**63) that depends on all four arguments and nothing else.

    Two clients, two rounds or two purposes never share a stream, and the order in which
    clients are visited cannot change a result. Use ``client=""`` for the server.
    """
    text = f"{run_seed}\x1f{client}\x1f{round}\x1f{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def generator(run_seed: int, client: str, round: int, purpose: str) -> torch.Generator:
    """Return a CPU generator seeded by :func:`derive_seed`."""
    import torch  # 250 MB, which who needs a seed alone does not load

    return torch.Generator().manual_seed(derive_seed(run_seed, client, round, purpose))


class Shares:
    """Numbers in [0, 1) by Mersenne Twister: those that :func:`generator`'s stream draws.

    Bit for bit ``torch.rand`` of float32, without PyTorch.
    """

    def __init__(self, run_seed: int, client: str, round: int, purpose: str) -> None:
        from numpy.random import RandomState

        # PyTorch takes the seed's last 32 bits, too.
        self._stream = RandomState(derive_seed(run_seed, client, round, purpose) & 0xFFFFFFFF)

    def draw(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return the next numbers, float32 of `shape`."""
        import numpy as np

        whole = self._stream.randint(0, 2**32, shape, np.uint32) & np.uint32(2**24 - 1)
        return whole.astype(np.float32) * np.float32(2.0**-24)
