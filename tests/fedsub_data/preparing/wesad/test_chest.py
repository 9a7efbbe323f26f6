from functools import cache

import neurokit2 as nk
import numpy as np
import pytest

from fedsub_data.preparing.wesad.chest import FEATURES, chest_features
from fedsub_data.preparing.wesad.physiology import beat_features, eda_features, slope
from fedsub_data.preparing.wesad.recording import Signal, Unusable

RATE, WINDOW = 700, 10_000


@cache
def window(heart_rate: int, responses: int = 1) -> dict[str, float]:
    ecg = nk.ecg_simulate(
        length=WINDOW, sampling_rate=RATE, heart_rate=heart_rate, random_state=heart_rate
    )
    eda = nk.eda_simulate(
        length=WINDOW, sampling_rate=RATE, scr_number=responses, drift=0, random_state=1
    )
    return chest_features({"ECG": Signal(ecg, RATE), "EDA": Signal(eda + 5, RATE)})


def test_thirty_names_and_a_finite_value_for_each() -> None:
    values = window(70)
    assert len(FEATURES) == len(set(FEATURES)) == 30
    assert set(FEATURES) == set(values)
    assert np.isfinite([values[name] for name in FEATURES]).all()


@pytest.mark.parametrize("heart_rate", [50, 70, 95, 130])
def test_the_heart_rate_is_the_simulated_one(heart_rate: int) -> None:
    values = window(heart_rate)
    assert values["ecg_rate_mean"] == pytest.approx(heart_rate, abs=2)
    assert values["hrv_median_nn"] == pytest.approx(60_000 / heart_rate, rel=0.03)
    assert values["ecg_rate_min"] <= values["ecg_rate_mean"] <= values["ecg_rate_max"]
    assert values["ecg_quality"] > 0.9


def test_without_a_heart_beat_the_window_is_unusable() -> None:
    eda = Signal(np.full(WINDOW, 5.0), RATE)
    slow = np.zeros(WINDOW)
    slow[::3500] = 1.0
    with pytest.raises(Unusable, match="too few beats"):
        chest_features({"ECG": Signal(slow, RATE), "EDA": eda})


def beats(window_s: float, frequency: float, depth_ms: float) -> np.ndarray:
    """Beats every 800 ms, at 1000 Hz, their distance swaying `depth_ms` at `frequency`."""
    at = [0.1]
    while at[-1] < window_s:
        at.append(at[-1] + 0.8 + depth_ms / 1000 * np.sin(2 * np.pi * frequency * at[-1]))
    return np.round(1000 * np.asarray(at[:-1])).astype(int)


def test_high_frequency_power_tells_respiration_from_slower_waves() -> None:
    breath, slower = (beat_features(beats(14.3, f, 30), 1000, 14.3) for f in (0.25, 0.08))
    assert breath["hrv_hf_share"] > 0.7 > 0.4 > slower["hrv_hf_share"]
    deeper = beat_features(beats(14.3, 0.25, 60), 1000, 14.3)
    # Twice the depth is four times the power.
    assert deeper["hrv_ln_hf"] - breath["hrv_ln_hf"] == pytest.approx(np.log(4), abs=0.15)
    # A sine of amplitude a has the power a^2 / 2, of which the Hann window leaks a part.
    assert 0.6 * 450 < np.exp(breath["hrv_ln_hf"]) < 450


def test_variability_by_hand() -> None:
    # Times between beats 800, 900, 800, 900, ... ms.
    peaks = np.cumsum([0, *([800, 900] * 8)])
    values = beat_features(peaks, 1000, 14.3)
    assert values["rate_mean"] == pytest.approx(60 / 0.85)
    assert values["rate_min"] == pytest.approx(60 / 0.9)
    assert values["rate_max"] == pytest.approx(60 / 0.8)
    assert values["hrv_rmssd"] == pytest.approx(100)
    assert values["hrv_sdnn"] == pytest.approx(50 * np.sqrt(16 / 15))
    assert values["hrv_pnn50"] == pytest.approx(100 * 15 / 16)  # of 16 times


def test_too_few_and_too_many_beats() -> None:
    with pytest.raises(Unusable, match="too few beats"):
        beat_features(np.arange(7) * 2000, 1000, 14.3)
    with pytest.raises(Unusable, match="too many beats"):
        beat_features(np.arange(70) * 200, 1000, 14.3)


def test_responses_are_counted_with_their_amplitudes() -> None:
    time = np.arange(WINDOW) / RATE
    one, other = (h * np.exp(-(((time - at) / 0.7) ** 2)) for at, h in ((4, 0.5), (9, 0.3)))
    bump = one + other
    values = eda_features(5 + bump, RATE)
    assert values["scr_rate"] == pytest.approx(2 * 60 / (WINDOW / RATE))
    assert values["scr_amplitude_sum"] == pytest.approx(0.8, abs=0.1)
    assert 0 < values["eda_tonic_range"] < 0.5
    assert values["eda_phasic_max"] - values["eda_phasic_min"] == pytest.approx(0.5, abs=0.1)
    assert values["eda_tonic_mean"] == pytest.approx(5 + bump.mean(), abs=0.05)


@pytest.mark.filterwarnings("ignore:EDA signal is sampled")
@pytest.mark.parametrize(("rate", "count"), [(700, 10_000), (4, 240)])
def test_a_flat_window_has_no_response_and_is_finite(rate: int, count: int) -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, count)
    values = eda_features(2 + noise, rate)
    assert values["scr_rate"] == values["scr_amplitude_sum"] == 0
    assert values["eda_tonic_mean"] == pytest.approx(2, abs=0.001)
    assert np.isfinite(list(values.values())).all()


def test_slope_is_a_second() -> None:
    assert slope(3 + 0.25 * np.arange(240) / 4, 4) == pytest.approx(0.25)
