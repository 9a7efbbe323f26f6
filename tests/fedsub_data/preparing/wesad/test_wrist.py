import json
import lzma
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fedsub_data.preparing.options import WESADOptions
from fedsub_data.preparing.preparation import Counts
from fedsub_data.preparing.wesad.preparer import windows_of
from fedsub_data.preparing.wesad.recording import Recording, Signal, featured_windows
from fedsub_data.preparing.wesad.wrist import FEATURES, wrist_features

ARRAYS = {
    "BVP": ("bvp_64hz_int32_x100", 64, 100),
    "EDA": ("eda_4hz_float32", 4, 1),
    "TEMP": ("temp_4hz_int16_x100", 4, 100),
    "ACC": ("acc_4hz_int16_x8", 4, 8),
    "label": ("label_4hz_int8", 4, 1),
}


def real_array(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Everybody's values of one array, and where each of the 15 begins and the last ends."""
    file, rate, scale = ARRAYS[name]
    index = json.loads((folder / "index.json").read_text())
    with lzma.open(folder / f"{file}.npy.xz") as opened:
        values = np.load(opened)
    bounds = np.concatenate([[0], np.cumsum(index["n_4hz"])]) * (rate // 4)
    return (values if scale == 1 else (values / scale).astype(np.float32)), bounds


def real_recordings(folder: Path, people: int) -> list[Recording]:
    arrays = {name: real_array(folder, name) for name in ARRAYS}
    cut = {name: np.split(values, at[1:-1]) for name, (values, at) in arrays.items()}
    return [
        Recording(
            f"person {i}",
            {name: Signal(cut[name][i], ARRAYS[name][1]) for name in ARRAYS if name != "label"},
            cut["label"][i],
            4.0,
        )
        for i in range(people)
    ]


@pytest.fixture(scope="module")
def raw(real_data: Path) -> Path:
    folder = real_data / "wesad-wrist-raw"
    if not folder.is_dir():
        pytest.skip(f"no real wrist recordings at {folder}")
    return folder


def plausible(x: np.ndarray, y: np.ndarray) -> None:
    columns = dict(zip(FEATURES, x.T, strict=True))
    assert np.isfinite(x).all()
    assert 55 < np.median(columns["pulse_rate_mean"]) < 110
    assert columns["temp_mean"].min() > 20 and columns["temp_mean"].max() < 40
    assert columns["acc_mean"] == pytest.approx(1.0, abs=0.15)
    assert columns["eda_tonic_mean"].min() > 0
    stress, rest = columns["pulse_rate_mean"][y == 1], columns["pulse_rate_mean"][y == 3]
    assert np.median(stress) > np.median(rest) + 2
    assert columns["acc_sd"][y == 1].mean() > columns["acc_sd"][y == 3].mean()


@pytest.mark.slow
def test_one_real_person(raw: Path) -> None:
    (recording,) = real_recordings(raw, 1)
    windows = windows_of(recording, WESADOptions(signals="wrist", window_s=120.0, overlap=0.0))
    # 1144 s of baseline, 615 of stress, 362 of amusement, 391 + 377 of meditation.
    assert np.bincount(windows.y).tolist() == [9, 5, 3, 6]
    assert windows.t[0] == 306.5
    assert np.diff(windows.t).min() == 120
    plausible(windows.x, windows.y)


@pytest.mark.slow
@pytest.mark.release
def test_two_real_people(raw: Path) -> None:
    """Those at the end, who have windows with too few beats."""
    people = [windows_of(r, WESADOptions(signals="wrist")) for r in real_recordings(raw, 15)[-2:]]
    counts = Counts()
    for windows in people:
        counts.merge(windows.counts)
    assert counts["rows read"] == 46_204
    assert counts["windows kept"] == 186
    assert counts["windows dropped: NeuroKit2 found too few beats"] == 2
    plausible(np.concatenate([w.x for w in people]), np.concatenate([w.y for w in people]))


def test_the_real_labels_give_the_papers_6189_chest_windows(raw: Path) -> None:
    labels, at = real_array(raw, "label")
    kept = 0
    for start, end in pairwise(at):
        recording = Recording("labels", {}, np.repeat(labels[start:end], 700 // 4), 700.0)
        windows = featured_windows(recording, lambda cut: {"a": 0.0}, ("a",), 1e4 / 700, 5e3 / 700)
        kept += windows.counts["windows kept"]
    assert kept == 6189


@pytest.mark.filterwarnings("ignore:EDA signal is sampled")
def test_features_by_hand() -> None:
    rng = np.random.default_rng(0)
    at = np.arange(60 * 64) / 64
    bvp = 40 * np.sin(2 * np.pi * 1.2 * at) + rng.normal(0, 0.1, len(at))
    acc = np.zeros((60 * 32, 3))
    acc[:, 0], acc[960:, 0] = 64, 128  # 1 g, then 2 g
    values = wrist_features(
        {
            "BVP": Signal(bvp, 64),
            "EDA": Signal(1 + 0.01 * np.arange(240) / 4, 4),
            "TEMP": Signal(33 + 0.5 * np.arange(240) / 240, 4),
            "ACC": Signal(acc, 32),
        }
    )
    assert len(FEATURES) == len(set(FEATURES)) == 24 and set(FEATURES) <= set(values)
    assert values["pulse_rate_mean"] == pytest.approx(72, abs=0.5)
    assert values["hrv_rmssd"] < 20  # one sample at 64 Hz is 16 ms
    assert values["bvp_quality"] > 0.95
    assert values["temp_slope"] == pytest.approx(0.5)
    assert values["temp_mean"] == pytest.approx(33.25, abs=0.01)
    assert (values["acc_mean"], values["acc_sd"], values["acc_range"]) == (1.5, 0.5, 1.0)
    assert values["scr_rate"] == 0
