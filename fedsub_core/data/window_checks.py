"""Whether a client's windows have the length and spacing that the card says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.edges import Refuse

#: Steps from window to window of which this share are alike, and so many at least, are a rule.
_REGULAR, _FEWEST = 0.9, 10
#: How far they may lie apart, in steps; and how far from what the card says, in windows.
_ALIKE, _NEAR = 0.1, 0.05


def check_windows(
    shape: tuple[int, ...], t: NDArray[np.float64] | None, card: Card, refused: Refuse
) -> None:
    """Refuse windows whose length or spacing is another than the card's.

    Parameters
    ----------
    shape : of ``x``, [n, F], [n, F, time] or [n, F, height, width].
    t : seconds, float64 [n].

    Notes
    -----
    Samples of a raw window may be one more or less than length times rate, or 1 %. Steps in time
    are compared where the card says that windows overlap and they are regular: samples that were
    left out, or devices that record at once, make others.
    """
    rate, length = card.sampling_rate_hz, card.window_s
    if len(shape) == 4 and (rate or length or card.overlap):
        got = f"sampling_rate_hz, window_s or overlap for images of shape {shape[1:]}"
        raise refused("federation.toml", got, "none of them", "Remove them.")
    if len(shape) == 3 and rate is not None:
        if length is not None and abs(shape[2] - length * rate) > 1 + 0.01 * shape[2]:
            expected = f"{length * rate:g}, the card's window_s = {length:g} at {rate:g} Hz"
            do = f"Correct window_s ({shape[2] / rate:g}?) or sampling_rate_hz in federation.toml."
            raise refused("x", f"windows of {shape[2]} samples", expected, do)
        length = shape[2] / rate
    if t is None or length is None or not card.overlap or len(t) <= _FEWEST:
        return
    # Devices that record at once have windows that begin at one time.
    steps = np.diff(np.unique(t)) if t.min() < t.max() else np.zeros(1)
    step, said = float(np.median(steps)), length * (1 - card.overlap)
    regular = np.mean(np.abs(steps - step) <= _ALIKE * step) >= _REGULAR
    if regular and abs(step - said) > _NEAR * length:
        expected = f"{said:g} s, by the card's windows of {length:g} s that overlap by "
        do = "Give t in seconds, or correct overlap in federation.toml."
        raise refused("t", f"a window every {step:g} s", f"{expected}{card.overlap:g}", do)
