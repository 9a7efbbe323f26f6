"""The validation part: training samples that a device holds back to choose the best round by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Card
from fedsub_core.data.given import given_parts
from fedsub_core.data.splits import SplitKind, split, split_kind
from fedsub_core.errors import DataError


def comes(client: ClientData) -> bool:
    """Return whether samples come during the run."""
    return client.since is not None and bool((client.since > 1).any())


def held_back(
    train: NDArray[np.int64],
    client: ClientData,
    card: Card,
    kind: SplitKind,
    settings: SplitSettings,
    grown: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training part without, and the validation part; cut as what is tested is cut.

    Of windows that overlap none is on both sides. Who has too few for that holds none back. Nor
    does a device whose file has `grown` during the run: other samples would judge than before.

    Raises DataError where samples come during the run.
    """
    if comes(client):
        raise DataError(
            f"client {client.client!r}: best-by = validation: got samples that come during the "
            "run, expected all of them from the start: rounds before and after are judged by "
            "other samples. Set best-by = last"
        )
    none = np.empty(0, np.int64)
    if grown:
        return train, none
    if kind == "given":
        held = np.flatnonzero(given_parts(client, card)[1])
        if len(held):
            return train, held
        kind = split_kind("auto", client, card)
    try:
        left, held = split(client.part(train), card, kind, settings.test_share, settings.seed)
    except DataError:
        return train, none
    return train[left], train[held]
