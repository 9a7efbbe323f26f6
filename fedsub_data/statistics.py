"""Features out of windows: five statistics of each channel, for models that see no time."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Federation
from fedsub_core.data.windows import window_seconds
from fedsub_core.errors import DataError

#: What becomes of each channel, in this order; all channels' means come first.
STATISTICS = ("mean", "std", "min", "max", "energy")


def statistics(federation: Federation) -> Federation:
    """Return `federation` with features ``[n, 5 * F]`` in place of windows ``[n, F, time]``.

    The standard deviation is the population's, energy the mean of squares (in squared units).
    Labels, times, and what comes in which round stay.

    Raises DataError where samples are no windows.
    """
    card = federation.card
    clients = {}
    for name, data in federation.clients.items():
        if data.x.ndim != 3:
            raise DataError(
                f"federation {card.name!r}: client {name!r} has samples of shape "
                f"{data.x.shape[1:]}; expected windows, (channels, time). Start from raw signals."
            )
        clients[name] = replace(data, x=_features(data.x))
    features = tuple(f"{channel}_{what}" for what in STATISTICS for channel in card.features)
    named = replace(card, name=f"{card.name}-stats", features=features, sampling_rate_hz=None)
    # What followed from samples and rate can no longer be read off.
    named = replace(named, window_s=window_seconds(next(iter(federation.clients.values())), card))
    return Federation(named, clients)


def _features(x: NDArray[np.float32]) -> NDArray[np.float32]:
    # Single numbers are rounded once, not at every sum.
    wide = x.astype(np.float64)
    parts = [wide.mean(2), wide.std(2), wide.min(2), wide.max(2), (wide**2).mean(2)]
    return np.concatenate(parts, axis=1).astype(np.float32)
