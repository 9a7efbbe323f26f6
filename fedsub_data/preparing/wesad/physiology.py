"""Heart rate variability and electrodermal activity of one window, through NeuroKit2.

Times between beats are in milliseconds, rates in beats a minute. Only measures that mean something
in windows from ten seconds on are here. The low-frequency band (0.04 to 0.15 Hz) is left out, and
with it LF/HF: 14 s hold at most two of its cycles and cannot tell it from the high-frequency band,
and the Task Force (1996) asks for two minutes.
"""

from typing import Any

import neurokit2 as nk
import numpy as np

from fedsub_data.preparing.wesad.recording import Unusable
from fedsub_data.preparing.windows import Array

#: A mean rate outside is no human heart: beats were missed or invented.
LOWEST_BPM, HIGHEST_BPM = 30.0, 220.0

#: Hz: respiration's band, and all that varies from beat to beat.
_HF, _ALL = (0.15, 0.4), (0.04, 0.5)
_INTERPOLATION_HZ = 4  # customary for times between beats (Kubios)

#: The statistics of times between beats that NeuroKit2's `hrv_time` is asked for.
TIME_DOMAIN = {
    "hrv_median_nn": "HRV_MedianNN",
    "hrv_mad_nn": "HRV_MadNN",
    "hrv_iqr_nn": "HRV_IQRNN",
    "hrv_sdnn": "HRV_SDNN",
    "hrv_rmssd": "HRV_RMSSD",
    "hrv_sdrmssd": "HRV_SDRMSSD",
    "hrv_cvnn": "HRV_CVNN",
    "hrv_cvsd": "HRV_CVSD",
    "hrv_pnn20": "HRV_pNN20",
    "hrv_pnn50": "HRV_pNN50",
}


def beat_features(peaks: Array, rate_hz: float, window_s: float) -> dict[str, float]:
    """Return the rate (beats a minute) and the variability of beats at the samples `peaks`.

    Raises Unusable where the beats found are too few or too many for a heart.
    """
    if len(peaks) < window_s * LOWEST_BPM / 60 or len(peaks) < 4:
        raise Unusable("NeuroKit2 found too few beats")
    between_s = np.diff(peaks) / rate_hz
    if 60 / between_s.mean() > HIGHEST_BPM:
        raise Unusable("NeuroKit2 found too many beats")
    rate = 60 / between_s
    time_domain: Any = nk.hrv_time(peaks, sampling_rate=rate_hz).iloc[0]
    return {
        "rate_mean": 60 / between_s.mean(),
        "rate_sd": rate.std(),
        "rate_min": rate.min(),
        "rate_max": rate.max(),
        **{name: float(time_domain[column]) for name, column in TIME_DOMAIN.items()},
        **_frequency_domain(1000 * between_s, peaks[1:] / rate_hz),
    }


def _frequency_domain(between_ms: Array, at_s: Array) -> dict[str, float]:
    """Return ln of the high-frequency power (ms^2), and its share of the power of 0.04 to 0.5 Hz.

    One Hann window over all of the beats: `nk.hrv_frequency` halves it for Welch's average, which
    leaves 14 s without a single line in the band.
    """
    even, _, _ = nk.intervals_process(
        between_ms, intervals_time=at_s, interpolate=True, interpolation_rate=_INTERPOLATION_HZ
    )
    power = nk.signal_power(
        even,
        [_HF, _ALL],
        sampling_rate=_INTERPOLATION_HZ,
        method="welch",
        normalize=False,
        min_frequency=_ALL[0],
        window=len(even) / _INTERPOLATION_HZ,
    )
    high, every = power.iloc[0].to_numpy()
    return {"hrv_ln_hf": float(np.log(high)), "hrv_hf_share": float(high / every)}


#: The features of electrodermal activity.
EDA_FEATURES = (
    *(f"eda_tonic_{statistic}" for statistic in ("mean", "sd", "range", "slope")),
    *(f"eda_phasic_{statistic}" for statistic in ("sd", "min", "max", "abs_mean")),
    *("scr_rate", "scr_amplitude_sum"),
)
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
    computed = (
        *(tonic.mean(), tonic.std(), np.ptp(tonic), slope(tonic, rate_hz)),
        *(phasic.std(), phasic.min(), phasic.max(), np.abs(phasic).mean()),
        *(60 * rate_hz * len(amplitudes) / len(values), amplitudes.sum()),
    )
    return dict(zip(EDA_FEATURES, computed, strict=True))


def _scr_amplitudes(phasic: Array, rate_hz: float) -> Array:
    # Not nk.eda_peaks: it also looks for recoveries, and fails where there is no response at all.
    responses = nk.eda_findpeaks(phasic, sampling_rate=rate_hz)
    onsets = np.asarray(responses["SCR_Onsets"], np.float64)
    known = ~np.isnan(onsets)
    heights: Array = np.asarray(responses["SCR_Height"], np.float64)[known]
    amplitudes: Array = heights - phasic[onsets[known].astype(np.int64)]
    return amplitudes[amplitudes >= LEAST_SCR]
