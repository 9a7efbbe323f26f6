"""The 30 features of WESAD's chest device (RespiBAN, 700 Hz): ECG in mV and EDA in uS.

The FedSub paper extracts 30 features with NeuroKit2 from windows of 10,000 samples, "time- and
frequency-domain measures to model the ECG signal, and standard statistics related to both phasic
and tonic changes in the EDA signal", and does not name them. These are chosen here because they
are finite and mean something in 14.3 s: 20 of the ECG, 10 of the EDA.

Left out on purpose: low-frequency power and LF/HF (see the module ``physiology``), the
measures that NeuroKit2 averages over minutes (SDANN, SDNNI), those that need hundreds of beats
(HTI, TINN, DFA, entropies), and times of skin conductance responses, which do not exist where a
window holds no response.
"""

from collections.abc import Mapping

import neurokit2 as nk
import numpy as np

from fedsub_data.preparing.wesad.physiology import (
    EDA_FEATURES,
    TIME_DOMAIN,
    beat_features,
    eda_features,
)
from fedsub_data.preparing.wesad.recording import Signal
from fedsub_data.preparing.windows import Array

UNITS = (
    "rates a minute; NN in ms, pNN in %, HF power in ln ms^2, amplitudes of the ECG in mV, EDA in "
    "uS and uS/s; shares and quality from 0 to 1"
)
FEATURES = (
    *(f"ecg_rate_{statistic}" for statistic in ("mean", "sd", "min", "max")),
    *(*TIME_DOMAIN, "hrv_ln_hf", "hrv_hf_share"),
    *("ecg_qrs_share", "ecg_r_mean", "ecg_r_sd", "ecg_quality"),
    *EDA_FEATURES,
)

#: Hz: where QRS complexes have their power, and the whole ECG (pSQI, Zhao & Zhang 2018).
_QRS, _ECG = (5, 15), (5, 40)
_SPECTRUM_S = 4  # seconds of Welch's windows


def chest_features(signals: Mapping[str, Signal]) -> dict[str, float]:
    """Return the features of one window of ``ECG`` [n] in mV and ``EDA`` [n] in uS.

    Raises Unusable where NeuroKit2 finds too few or too many beats.
    """
    ecg, eda = signals["ECG"], signals["EDA"]
    return {**_ecg_features(ecg.values, ecg.rate_hz), **eda_features(eda.values, eda.rate_hz)}


def _ecg_features(values: Array, rate_hz: float) -> dict[str, float]:
    clean = nk.ecg_clean(values, sampling_rate=rate_hz)
    _, marks = nk.ecg_peaks(clean, sampling_rate=rate_hz, correct_artifacts=True)
    beats = beat_features(np.asarray(marks["ECG_R_Peaks"]), rate_hz, len(values) / rate_hz)
    peaks = np.asarray(marks["ECG_R_Peaks_Uncorrected"])  # only these are in the signal
    power = nk.signal_power(
        clean,
        [_QRS, _ECG],
        sampling_rate=rate_hz,
        method="welch",
        normalize=False,
        window=_SPECTRUM_S,
    )
    qrs, every = power.iloc[0].to_numpy()
    quality = nk.ecg_quality(clean, rpeaks=peaks, sampling_rate=rate_hz, method="templatematch")
    rates = {f"ecg_{name}": beats.pop(name) for name in list(beats) if name.startswith("rate_")}
    return {
        **rates,
        **beats,
        "ecg_qrs_share": float(qrs / every),
        "ecg_r_mean": clean[peaks].mean(),
        "ecg_r_sd": clean[peaks].std(),
        "ecg_quality": float(np.mean(quality)),
    }
