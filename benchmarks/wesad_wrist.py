"""Seconds to turn 24.1 h of real wrist recordings (15 people) into features, on two processes.

The recordings lie there as compact arrays, with acceleration and labels at 4 Hz; from there on they
take the way of the official files. `--out` writes the federation. With `--raw-hz` nothing is timed:
it writes the windows themselves, 60 s every 5 s, as a federation has one rate all signals at that.
"""

import functools
import json
import lzma
import time
from pathlib import Path

import numpy as np
from script import REAL, read_arguments

from fedsub_core.data.federation import Card, ClientData, Federation, write_federation
from fedsub_data.preparing.options import WESADOptions
from fedsub_data.preparing.preparation import each_person
from fedsub_data.preparing.wesad.preparer import together, windows_of
from fedsub_data.preparing.wesad.recording import CLASSES, Recording, Signal, Windows
from fedsub_data.preparing.windows import Array, stretches, window_starts

TINY = ["--clients", "1", "--workers", "1"]
#: One person's hours alone take most of a minute.
SLOW = True
LINES = ("S2 ", "people:", "windows kept:")
#: Seconds of raw windows, and from one to the next.
RAW_S, STEP_S = 60, 5
ARRAYS = {  # the file, samples a second, and what its integers were multiplied with
    "BVP": ("bvp_64hz_int32_x100", 64, 100),
    "EDA": ("eda_4hz_float32", 4, 1),
    "TEMP": ("temp_4hz_int16_x100", 4, 100),
    "ACC": ("acc_4hz_int16_x8", 4, 8),
    "label": ("label_4hz_int8", 4, 1),
}


def recordings(folder: Path) -> dict[int, Recording]:
    """Return everybody's recording, by their number."""
    index = json.loads((folder / "index.json").read_text("utf-8"))
    ends = np.cumsum(index["n_4hz"])
    cut = {}
    for name, (file, rate, scale) in ARRAYS.items():
        with lzma.open(folder / f"{file}.npy.xz") as opened:
            parts = np.split(np.load(opened), ends[:-1] * (rate // 4))
        cut[name] = [(p / scale).astype(np.float32) if scale > 1 else p for p in parts]
    return {
        number: Recording(
            f"{folder}, S{number}",
            {n: Signal(cut[n][i], ARRAYS[n][1]) for n in ARRAYS if n != "label"},
            cut["label"][i],
            4.0,
        )
        for i, number in enumerate(index["subjects"])
    }


def timed(recording: Recording, options: WESADOptions) -> tuple[Windows, float]:
    start = time.perf_counter()
    return windows_of(recording, options), time.perf_counter() - start


def at_rate(signal: Signal, rate_hz: int) -> Array:
    """Return a signal [n, axes] at another rate: means of what lies between, or lines."""
    values = signal.values.reshape(len(signal.values), -1)
    if (many := int(signal.rate_hz) // rate_hz) >= 1:
        means: Array = values[: len(values) // many * many].reshape(-1, many, values.shape[1])
        return np.asarray(means.mean(1))
    now = np.arange(len(values) * rate_hz // int(signal.rate_hz)) / rate_hz
    before = np.arange(len(values)) / signal.rate_hz
    return np.stack([np.interp(now, before, axis) for axis in values.T], 1)


def raw_windows(client: str, recording: Recording, rate_hz: int) -> ClientData:
    """Return windows [n, 6, samples] that lie inside one stretch of one class."""
    every = [at_rate(signal, rate_hz) for signal in recording.signals.values()]
    length = min(map(len, every))
    signals = np.concatenate([one[:length] for one in every], 1).T.astype(np.float32)
    rate, x, y, t = int(recording.label_rate_hz), [], [], []
    for start, end in stretches(recording.label):
        label = int(recording.label[start])
        rows = window_starts(start, end, RAW_S * rate, STEP_S * rate) if label in CLASSES else ()
        for row in rows:
            first = row * rate_hz // rate
            x.append(signals[:, first : first + RAW_S * rate_hz])
            y.append(list(CLASSES).index(label))
            t.append(row / rate)
    return ClientData(client, np.stack(x), np.array(y), np.array(t))


def raw_federation(people: dict[int, Recording], rate_hz: int) -> Federation:
    """Return everybody's windows."""
    card = Card(
        name="wesad-windows",
        task="stress and affect detection",
        classes=tuple(CLASSES.values()),
        features=("BVP", "EDA", "TEMP", "ACC x", "ACC y", "ACC z"),
        units="as the device gives them",
        sampling_rate_hz=float(rate_hz),
        window_s=float(RAW_S),
        overlap=1 - STEP_S / RAW_S,
        time_ordered=True,
    )
    named = {f"{number:02d}": one for number, one in people.items()}
    return Federation(card, {name: raw_windows(name, one, rate_hz) for name, one in named.items()})


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=Path(REAL, "wesad-wrist-raw"),
        clients=(0, "the first ones alone; 0 = all"),
        workers=2,
        out=Path,
        raw_hz=(int, "write raw windows; 4, 8, 16, 32 or 64"),
    )
    if arguments.raw_hz is not None and arguments.out is None:
        raise SystemExit("--raw-hz: nothing to write to, expected --out FOLDER")
    options = WESADOptions(signals="wrist")
    people = dict(list(recordings(arguments.data).items())[: arguments.clients or None])
    if arguments.raw_hz is not None:
        write_federation(arguments.out, raw_federation(people, arguments.raw_hz))
        return
    hours = sum(len(r.label) / r.label_rate_hz for r in people.values()) / 3600
    start = time.perf_counter()
    work = functools.partial(timed, options=options)
    done = each_person(work, list(people.values()), arguments.workers, lambda done, total: None)
    seconds = time.perf_counter() - start
    print(f"{'person':8} {'kept':>6} {'dropped':>8} {'seconds':>8}")
    for number, (windows, took) in zip(people, done, strict=True):
        dropped = sum(n for what, n in windows.counts.items() if what.startswith("windows dropped"))
        print(f"S{number:<7} {len(windows.y):6} {dropped:8} {took:8.1f}")
    prepared = together(list(people), [windows for windows, _ in done], options)
    for what, count in prepared.counts.items():
        print(f"{what}: {count:,}")
    print(
        f"{hours:.1f} h in {seconds:.1f} s, {arguments.workers} processes, NeuroKit2's loading too"
    )
    if arguments.out is not None:
        write_federation(arguments.out, prepared.federation)


if __name__ == "__main__":
    main()
