"""Answers for a recording: `python answer.py day.csv`; it needs NumPy and ONNX Runtime."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

HERE, UNITS = Path(__file__).parent, (1, 1e-3, 1e-6, 1e-9)
CARD: Any = json.loads((HERE / "card.json").read_text("utf-8"))
RATE, LENGTH, STEP, NAMES = map(CARD.get, ("rate_hz", "window_rows", "step_rows", "classes"))


def _mean(x: Any, width: int) -> Any:  # of `width` rows around each, of fewer at the ends
    sums, at = np.pad(np.cumsum(x, 0, np.float64), ((1, 0), (0, 0))), np.arange(len(x))
    side = np.minimum(np.minimum(at, at[::-1]), width // 2)
    return ((sums[at + side + 1] - sums[at - side]) / (2 * side + 1)[:, None]).astype(np.float32)


def _at_rate(t: Any, x: Any) -> Any:  # rows at the model's rate: as they are, or interpolated
    steps, samples = len(t) - 1, (t[-1] - t[0]) * RATE
    late = ((t - t[0]) * RATE - np.arange(len(t)))[:, None]
    even = (abs(np.diff(t) * RATE - 1) <= 0.1).all() or (abs(late - _mean(late, 128)) <= 0.33).all()
    if steps < 1 or (abs(samples - steps) <= max(0.02 * steps, 0.66) and even):
        return t, x
    x = _mean(x, 2 * (round(steps / samples) // 2) + 1) if steps / samples >= 1.5 else x
    grid = t[0] + np.arange(int(samples + 0.33) + 1) / RATE
    return grid, np.stack([np.interp(grid, t, c).astype(np.float32) for c in x.T], 1)


def _answer(path: str, model: Any) -> None:  # prints a row for each window; times are in seconds
    rows = list(csv.DictReader(Path(path).read_text("utf-8-sig").splitlines()))
    x = np.array([[row[name] or "nan" for name in CARD["features"]] for row in rows], np.float32)
    plain = {"".join(filter(str.isalnum, name.lower())): name for name in list(rows[0])[::-1]}
    time = next((plain[name] for name in CARD["times"] if name in plain), None)
    t: Any = [row[time] or "nan" for row in rows] if time else np.arange(len(x)) / RATE
    try:
        t = np.array(t, float)
    except ValueError:  # dates
        t = np.array([text.rstrip("Z") for text in t], "M8[ns]").astype(np.int64) / 1e9
    t, x = (each[np.isfinite(t) & np.isfinite(x).all(1)] for each in (t, x))
    assert (np.diff(t) >= 0).all(), f"{path}: got time that runs backwards, expected it in order"
    t, x = (each[np.diff(t, prepend=-np.inf) > 0] for each in (t, x))
    by_steps = UNITS[np.searchsorted((1, 1e3, 1e6), np.median(np.diff(t)))] if time else 1
    t = t * next((unit for unit in UNITS if 6.3e8 <= t[0] * unit <= 2.84e9), by_steps)
    breaks = np.flatnonzero(np.diff(t) > 10 * np.median(np.diff(t))) + 1
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(CARD["columns"])
    for begins, signal in map(_at_rate, np.split(t, breaks), np.split(x, breaks)):
        if at := range(0, len(begins) - LENGTH + 1, STEP):
            x = np.stack([signal[row : row + LENGTH].T for row in at])
            for begin, share in zip(begins[at], model.run(None, {"x": x})[0], strict=True):
                write([begin, begin + LENGTH / RATE, *NAMES[share.argmax() :][:1], *share])


if __name__ == "__main__":
    _answer(sys.argv[1], onnxruntime.InferenceSession(str(HERE / "model.onnx")))
