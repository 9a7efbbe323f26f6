import io
import os
import pickle
import re
import struct
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import neurokit2 as nk
import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.preparing.options import WESADOptions
from fedsub_data.preparing.wesad.chest import FEATURES
from fedsub_data.preparing.wesad.pickled import find_people, read_recording
from fedsub_data.preparing.wesad.preparer import prepare

#: Seconds of each label in a short recording, in the protocol's order.
PROTOCOL = ((0, 5), (1, 40), (0, 3), (2, 40), (6, 4), (4, 30), (3, 30))
HEART_RATES = {1: 62, 2: 92, 3: 72, 4: 56}
WINDOW = 10_000


# A name for mypy, which knows no pickler in Python alone.
PurePickler: Any = pickle._Pickler


class Python2Pickler(PurePickler):  # type: ignore[misc]
    """Writes what Python 2 wrote: text and arrays' bytes are its 8-bit strings."""

    dispatch: ClassVar[dict[Any, Any]] = dict(PurePickler.dispatch)

    def save_string(self, value: str | bytes) -> None:
        raw = value.encode("latin1") if isinstance(value, str) else value
        if self.proto == 0:
            self.write(pickle.STRING + repr(raw)[1:].encode() + b"\n")
        else:
            self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_string


def python2_pickle(content: object, protocol: int = 2) -> bytes:
    out = io.BytesIO()
    Python2Pickler(out, protocol).dump(content)
    return out.getvalue().replace(b"cnumpy._core.", b"cnumpy.core.")


@cache
def ecg(rate: int, seconds: int) -> np.ndarray:
    return np.asarray(
        nk.ecg_simulate(duration=seconds, sampling_rate=700, heart_rate=rate, random_state=1)
    )


@cache
def content(number: int) -> dict[str, Any]:
    label = np.concatenate([np.full(700 * s, label, np.int32) for label, s in PROTOCOL])
    heart = np.concatenate([ecg(HEART_RATES.get(la, 70) + number, s) for la, s in PROTOCOL])
    seconds = len(label) // 700
    eda = nk.eda_simulate(
        duration=seconds, sampling_rate=700, scr_number=12, drift=0, random_state=number
    )
    draw = np.random.default_rng(number).normal
    chest = {name: draw(size=(len(label), 1)) for name in ("EMG", "Temp", "Resp")}
    pulse = nk.ppg_simulate(
        duration=seconds, sampling_rate=64, heart_rate=70 + number, random_state=number
    )
    return {
        "subject": f"S{number}",
        "signal": {
            "chest": {
                "ACC": draw(size=(len(label), 3)),
                "ECG": heart[:, None],
                "EDA": 3 + eda[:, None],
                **chest,
            },
            "wrist": {
                "ACC": np.round(draw((0, 0, 64), size=(seconds * 32, 3))),
                "BVP": 50 * pulse[:, None],
                "EDA": 2 + 0.1 * draw(size=(seconds * 4, 1)),
                "TEMP": 33 + 0.01 * np.arange(seconds * 4)[:, None],
            },
        },
        "label": label,
    }


def official_zip(path: Path, people: tuple[int, ...] = (2, 10)) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in people:
            archive.writestr(f"WESAD/S{number}/S{number}_quest.csv", b"# Subj;S2")
            archive.writestr(f"WESAD/S{number}/S{number}.pkl", python2_pickle(content(number)))
    return path


def person_folder(root: Path, raw: bytes) -> Path:
    (root / "WESAD" / "S2").mkdir(parents=True)
    (root / "WESAD" / "S2" / "S2.pkl").write_bytes(raw)
    return root


def test_the_chest_of_two_people_from_the_zip_and_from_the_folder(tmp_path: Path) -> None:
    source = official_zip(tmp_path / "WESAD.zip")
    seen: list[int] = []
    prepared = prepare(source, WESADOptions(), 1, lambda done, total: seen.append(done))
    assert seen == [0, 1, 2]
    federation, card = prepared.federation, prepared.federation.card
    assert list(federation.clients) == ["02", "10"]
    assert card.classes == ("Baseline", "Stress", "Amusement", "Meditation")
    assert card.features == FEATURES and card.window_s == pytest.approx(14.2857, abs=1e-4)
    # (700 s - 10,000) // 5,000 + 1 windows a stretch: 4, 4, 3 and 3.
    data = federation.clients["02"]
    assert data.y.tolist() == [0] * 4 + [1] * 4 + [3] * 3 + [2] * 3
    assert data.t is not None and data.t[:5] == pytest.approx(
        [5, 5 + 5000 / 700, 5 + 1e4 / 700, 5 + 1.5e4 / 700, 48]
    )
    assert np.isfinite(data.x).all() and data.x.shape == (14, 30)
    rate = FEATURES.index("ecg_rate_mean")
    for label, simulated in enumerate(HEART_RATES.values()):
        assert data.x[data.y == label, rate] == pytest.approx(simulated + 2, abs=2)
    assert data.x[data.y == 1, rate].min() > data.x[data.y == 0, rate].max() + 20
    assert prepared.counts["people"] == 2 and prepared.counts["people of 15 not found"] == 13
    assert prepared.counts["rows read"] == 2 * 152 * 700
    assert prepared.counts["rows dropped: label 0 (transient)"] == 2 * 8 * 700
    assert prepared.counts["rows dropped: label 6 (to be ignored)"] == 2 * 4 * 700
    assert prepared.counts["windows kept"] == 28
    write_federation(tmp_path / "federation", federation)
    assert len(read_federation(tmp_path / "federation").clients["10"].y) == 14
    with zipfile.ZipFile(source) as archive:
        archive.extractall(tmp_path / "unpacked")
    for folder in (tmp_path / "unpacked", tmp_path / "unpacked" / "WESAD"):
        assert [person.number for person in find_people(folder)] == [2, 10]


def test_the_wrist_at_its_rates(tmp_path: Path) -> None:
    options = WESADOptions(signals="wrist", window_s=20.0, overlap=0.75)
    folder = person_folder(tmp_path, python2_pickle(content(2)))
    prepared = prepare(folder, options, 1, lambda done, total: None)
    data, names = prepared.federation.clients["02"], prepared.federation.card.features
    assert data.t is not None
    assert data.t.tolist() == [5, 10, 15, 20, 25, 48, 53, 58, 63, 68, 92, 97, 102, 122, 127, 132]
    columns = dict(zip(names, data.x.T, strict=True))
    assert columns["pulse_rate_mean"] == pytest.approx(72, abs=2)
    assert columns["temp_slope"] == pytest.approx(0.01 * 4 * 60, rel=1e-3)
    assert columns["temp_mean"] == pytest.approx(33 + 0.04 * (data.t + 10), abs=0.01)
    assert columns["acc_mean"] == pytest.approx(1.0, abs=0.01)  # gravity, in g


@pytest.mark.parametrize("protocol", [0, 2])
def test_signals_come_back_as_python_2_wrote_them(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "S10").mkdir()
    raw = python2_pickle(content(10), protocol)
    assert b"cnumpy.core.multiarray\n_reconstruct" in raw
    (tmp_path / "S10" / "S10.pkl").write_bytes(raw)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("S10/S10.pkl", raw)
    for source in (tmp_path, tmp_path / "x.zip"):
        (person,) = find_people(source)
        for device, official in content(10)["signal"].items():
            recording = read_recording(person, device)
            np.testing.assert_array_equal(recording.label, content(10)["label"])
            for name, signal in recording.signals.items():
                want = official[name].squeeze().astype(np.float32)
                np.testing.assert_array_equal(signal.values, want)


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {os.environ['WESAD_PROOF']}",)


def test_a_pickle_that_would_run_a_command_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WESAD_PROOF", str(tmp_path / "ran"))
    folder = person_folder(tmp_path, pickle.dumps({"subject": Runs()}, protocol=2))
    with pytest.raises(DataError, match=r"S2\.pkl: got UnpicklingError: .*system"):
        prepare(folder, WESADOptions(), 1, lambda done, total: None)
    assert not (tmp_path / "ran").exists()


def changed(device: str, name: str, value: Any) -> dict[str, Any]:
    whole = content(2)
    return {**whole, "signal": {device: {**whole["signal"][device], name: value}}}


@cache
def broken() -> dict[str, tuple[bytes, str]]:
    raw, whole = python2_pickle(content(2)), content(2)
    heart = whole["signal"]["chest"]["ECG"].copy()
    gap = heart.copy()
    gap[777] = np.nan
    labels = whole["label"].copy()
    labels[5000] = 9
    unlabelled = {key: value for key, value in whole.items() if key != "label"}
    contents: dict[str, tuple[object, str]] = {
        "no label": (unlabelled, "got no label"),
        "no device": ({**whole, "signal": {}}, "got no signal chest ECG"),
        "no dict": ([1, 2], "got list, expected a dict"),
        "another person": ({**whole, "subject": "S3"}, r"got subject 'S3', expected 'S2'"),
        "three axes": (changed("chest", "ECG", np.ones((9, 3))), r"ECG of shape \(9, 3\)"),
        "empty": (changed("chest", "ECG", np.ones((0, 1))), r"ECG of shape \(0, 1\)"),
        "text": (changed("chest", "ECG", "none"), "ECG of type str"),
        "objects": (changed("chest", "ECG", np.array([None])), "ECG of type ndarray"),
        "short": (changed("chest", "ECG", heart[:-1]), "ECG with 106399 rows at 700 Hz"),
        "NaN": (changed("chest", "ECG", gap), "ECG of nan at row 777"),
        "label 9": ({**whole, "label": labels}, "got label 9 at row 5000"),
        "label 1.0": ({**whole, "label": labels * 1.0}, "got label of type float64"),
    }
    made = {name: (python2_pickle(value), match) for name, (value, match) in contents.items()}
    return {**made, "truncated": (raw[:-100_000], "got EOFError"), "no bytes": (b"", "got EOF")}


#: Named here: to make them takes seconds, also where no test of this file runs.
FAULTS = (
    "no label", "no device", "no dict", "another person", "three axes", "empty", "text", "objects",
    "short", "NaN", "label 9", "label 1.0", "truncated", "no bytes",
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_refused_by_name(tmp_path: Path, fault: str) -> None:
    raw, match = broken()[fault]
    folder = person_folder(tmp_path, raw)
    where = re.escape(str(folder / "WESAD" / "S2" / "S2.pkl"))
    with pytest.raises(DataError, match=f"{where}: .*{match}"):
        prepare(folder, WESADOptions(), 1, lambda done, total: None)


def test_sources_that_are_not_wesad(tmp_path: Path) -> None:
    (tmp_path / "WESAD.zip").write_bytes(b"PK\x03\x04 cut")
    faults = {"WESAD.zip": "not a zip file", "nowhere": "nothing there", ".": "no S2/S2.pkl"}
    for name, match in faults.items():
        with pytest.raises(DataError, match=match):
            find_people(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("WESAD/S2/S2.pkl", b"")
        archive.writestr("S2/S2.pkl", b"")
    with pytest.raises(DataError, match="expected each person once"):
        find_people(tmp_path / "twice.zip")


def test_a_window_too_short_for_beats_is_refused(tmp_path: Path) -> None:
    with refused(ConfigError, "window-s", got=5, expected=[0, "10 s"]):
        prepare(tmp_path, WESADOptions(window_s=5.0), 1, lambda done, total: None)
