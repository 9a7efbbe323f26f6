"""What each client gains over the model that its device trains beside, without others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from fedsub_client.split_client import SplitClient
from fedsub_core.data.stacks import Stack
from fedsub_core.paired import Gain, paired_gain
from fedsub_core.seeds import derive_seed
from fedsub_core.turn import Turn


def own_gains(
    test: Stack, clients: Sequence[SplitClient], ours: Tensor, theirs: Tensor, turn: Turn
) -> list[Gain | None]:
    """Return each client's gain of predictions `ours` over `theirs`; None without samples.

    Parameters
    ----------
    test : the samples that were predicted.
    clients : whose they are, in the order of `test`.
    ours, theirs : int64 [clients, samples].
    turn : of the test, which the resamples' seed is derived from.
    """
    gains: list[Gain | None] = []
    for i, (client, count) in enumerate(zip(clients, test.counts, strict=True)):
        y, first, second = (t[i, :count].cpu().numpy() for t in (test.y, ours, theirs))
        if client.t is not None and count:
            order = np.argsort(client.t[client.test[:count]], kind="stable")
            y, first, second = y[order], first[order], second[order]
        seed = derive_seed(turn.seed, client.client, turn.round, "gain")
        gains.append(paired_gain(y, first, second, seed, client.together) if count else None)
    return gains
