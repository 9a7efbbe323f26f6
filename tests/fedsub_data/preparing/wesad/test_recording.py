import warnings
from collections.abc import Mapping

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.preparing.wesad.recording import Recording, Signal, Unusable, featured_windows

LABEL_HZ = 10.0


def recording(label: list[int], **signals: Signal) -> Recording:
    return Recording("S2.pkl", signals, np.asarray(label, np.int32), LABEL_HZ)


def seconds(count: int, rate: float) -> Signal:
    """A signal whose every sample is the time at which it was taken."""
    return Signal(np.arange(count, dtype=np.float32) / rate, rate)


def extent(signals: Mapping[str, Signal]) -> dict[str, float]:
    values = signals["a"].values
    return {"first": values[0], "last": values[-1], "count": len(values)}


NAMES = ("first", "last", "count")


def test_windows_lie_inside_one_stretch_of_one_class() -> None:
    # 0 to 3 s transient, 3 to 8 s stress, 8 to 9 s ignored, 9 to 12.5 s baseline
    label = [0] * 30 + [2] * 50 + [5] * 10 + [1] * 35
    windows = featured_windows(
        recording(label, a=seconds(50, 4.0)), extent, NAMES, window_s=2.0, step_s=1.0
    )
    assert windows.t.tolist() == [3.0, 4.0, 5.0, 6.0, 9.0, 10.0]
    assert windows.y.tolist() == [1, 1, 1, 1, 0, 0]
    assert windows.x[:, 0].tolist() == windows.t.tolist()
    np.testing.assert_array_equal(windows.x[:, 1], windows.t + 1.75)
    assert set(windows.x[:, 2]) == {8.0}
    assert dict(windows.counts) == {
        "rows read": 125,
        "rows dropped: label 0 (transient)": 30,
        "rows dropped: label 5 (to be ignored)": 10,
        "rows dropped: label 6 (to be ignored)": 0,
        "rows dropped: label 7 (to be ignored)": 0,
        "windows kept": 6,
    }


@pytest.mark.parametrize("rate", [0.7, 3.0, 4.0, 9.99, 64.0])
def test_every_sample_of_a_window_lies_in_its_time(rate: float) -> None:
    signal = seconds(int(20 * rate), rate)
    for start in np.arange(0, 15, 0.1):
        cut = signal.between(float(start), 5.0)
        assert len(cut) == int(5 * rate + 1e-6)
        assert cut[0] >= start - 1e-4 and cut[-1] < start + 5.0


def test_unusable_windows_are_dropped_and_counted_by_reason() -> None:
    def fails(signals: Mapping[str, Signal]) -> dict[str, float]:
        at = signals["a"].values[0]
        if at == 0:
            raise Unusable("NeuroKit2 found too few beats")
        if at == 1:
            raise ZeroDivisionError
        if at == 2:
            return {"level": float("nan")}
        if at == 3:
            return {"level": 1e39}
        with np.errstate(all="warn"):
            warnings.warn("a short window", stacklevel=1)
        return {"level": at}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        windows = featured_windows(
            recording([4] * 60, a=seconds(60, 10.0)), fails, ("level",), 1.0, 1.0
        )
    assert windows.x.tolist() == [[4.0], [5.0]]
    assert windows.t.tolist() == [4.0, 5.0]
    dropped = {k: v for k, v in windows.counts.items() if k.startswith("windows")}
    assert dropped == {
        "windows kept": 2,
        "windows dropped: NeuroKit2 found too few beats": 1,
        "windows dropped: NeuroKit2 failed (ZeroDivisionError)": 1,
        "windows dropped: level is not finite": 2,
    }


@pytest.mark.parametrize("wrong", [9, -1, 300])
def test_an_unknown_label_is_refused(wrong: int) -> None:
    with refused(DataError, "S2.pkl", got=[f"label {wrong}", "row 3"], expected="0 to 7"):
        featured_windows(recording([1, 1, 1, wrong], a=seconds(4, 10.0)), extent, NAMES, 0.2, 0.1)


def test_a_person_without_windows_is_refused() -> None:
    label = [0] * 30 + [1] * 19 + [7] * 10
    with refused(DataError, "S2.pkl", "30 rows", got="no usable window"):
        featured_windows(recording(label, a=seconds(59, 10.0)), extent, NAMES, 2.0, 1.0)
