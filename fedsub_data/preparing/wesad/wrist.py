"""The 24 features of WESAD's wrist device (Empatica E4): pulse, EDA, temperature and motion.

Windows are 60 s long, not the chest's 14 s: the pulse in BVP is 64 Hz and disturbed by motion,
so its rate and variability need some dozens of beats, and EDA at 4 Hz has 57 samples in 14 s.
"""

from collections.abc import Mapping

import neurokit2 as nk
import numpy as np

from fedsub_data.preparing.wesad.physiology import EDA_FEATURES, beat_features, eda_features, slope
from fedsub_data.preparing.wesad.recording import Signal
from fedsub_data.preparing.windows import Array

SIGNALS = ("BVP", "EDA", "TEMP", "ACC")
UNITS = (
    "rates a minute; NN in ms, pNN in %, HF power in ln ms^2, BVP in the device's units, EDA in uS "
    "and uS/s, temperature in degrees Celsius (slope: a minute), acceleration in g"
)
FEATURES = (
    *("pulse_rate_mean", "pulse_rate_sd"),
    *("hrv_median_nn", "hrv_sdnn", "hrv_rmssd", "hrv_ln_hf"),
    *("bvp_amplitude", "bvp_quality"),
    *EDA_FEATURES,
    *("temp_mean", "temp_sd", "temp_slope", "acc_mean", "acc_sd", "acc_range"),
)

_ACC_PER_G = 64  # the E4 reports 1/64 g


def wrist_features(signals: Mapping[str, Signal]) -> dict[str, float]:
    """Return the features of one window of ``BVP``, ``EDA`` (uS), ``TEMP`` [n], ``ACC`` [n, 3].

    Each signal has its own rate; ``ACC`` is in 1/64 g.

    Raises Unusable where NeuroKit2 finds too few or too many beats.
    """
    bvp, eda, temp, acc = (signals[name] for name in SIGNALS)
    magnitude = np.linalg.norm(acc.values, axis=1) / _ACC_PER_G
    return {
        **_pulse_features(bvp.values, bvp.rate_hz),
        **eda_features(eda.values, eda.rate_hz),
        "temp_mean": temp.values.mean(),
        "temp_sd": temp.values.std(),
        "temp_slope": 60 * slope(temp.values, temp.rate_hz),
        "acc_mean": magnitude.mean(),
        "acc_sd": magnitude.std(),
        "acc_range": np.ptp(magnitude),
    }


def _pulse_features(values: Array, rate_hz: float) -> dict[str, float]:
    clean = nk.ppg_clean(values, sampling_rate=rate_hz)
    _, marks = nk.ppg_peaks(clean, sampling_rate=rate_hz, correct_artifacts=True)
    beats = beat_features(np.asarray(marks["PPG_Peaks"]), rate_hz, len(values) / rate_hz)
    peaks = np.asarray(marks["PPG_Peaks_Uncorrected"])  # only these are in the signal
    quality = nk.ppg_quality(clean, peaks=peaks, sampling_rate=rate_hz, method="templatematch")
    return {
        **beats,
        "pulse_rate_mean": beats["rate_mean"],
        "pulse_rate_sd": beats["rate_sd"],
        "bvp_amplitude": float(np.median(clean[peaks])),
        "bvp_quality": float(np.mean(quality)),
    }
