"""Electrodermal activity of one window, in uS, split into tonic and phasic parts by NeuroKit2."""

from __future__ import annotations

import neurokit2 as nk
import numpy as np

from fedsub_data.preparing.windows import Array

#: uS; a smaller rise is noise (Boucsein 2012, section 2.3.1.2.2, names 0.01 to 0.05 uS).
LEAST_SCR = 0.01


def slope(values: Array, rate_hz: float) -> float:
    """Return the least-squares slope of evenly sampled `values`, a second."""
    seconds = np.arange(len(values)) / rate_hz
    seconds -= seconds.mean()
    return float(seconds @ values / (seconds @ seconds))


def eda_features(values: Array, rate_hz: float) -> dict[str, float]:
    """Return tonic level, phasic activity and skin conductance responses of `values` in uS.

    ``scr_rate`` is in responses a minute; ``scr_amplitude_sum`` in uS is 0 where there is none.
    A response that began before the window has no known amplitude and is not counted.
    """
    clean = nk.eda_clean(values, sampling_rate=rate_hz)
    parts = nk.eda_phasic(clean, sampling_rate=rate_hz)
    tonic, phasic = parts["EDA_Tonic"].to_numpy(), parts["EDA_Phasic"].to_numpy()
    amplitudes = _scr_amplitudes(phasic, rate_hz)
    return {
        "eda_tonic_mean": tonic.mean(),
        "eda_tonic_sd": tonic.std(),
        "eda_tonic_range": np.ptp(tonic),
        "eda_tonic_slope": slope(tonic, rate_hz),
        "eda_phasic_sd": phasic.std(),
        "eda_phasic_min": phasic.min(),
        "eda_phasic_max": phasic.max(),
        "eda_phasic_abs_mean": np.abs(phasic).mean(),
        "scr_rate": 60 * rate_hz * len(amplitudes) / len(values),
        "scr_amplitude_sum": amplitudes.sum(),
    }


def _scr_amplitudes(phasic: Array, rate_hz: float) -> Array:
    # Not nk.eda_peaks: it also looks for recoveries, and fails where there is no response at all.
    found = nk.eda_findpeaks(phasic, sampling_rate=rate_hz)
    onsets = np.asarray(found["SCR_Onsets"], np.float64)
    known = ~np.isnan(onsets)
    heights: Array = np.asarray(found["SCR_Height"], np.float64)[known]
    amplitudes: Array = heights - phasic[onsets[known].astype(np.int64)]
    return amplitudes[amplitudes >= LEAST_SCR]
