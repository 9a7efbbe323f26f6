"""Seconds to turn 24.1 h of real wrist recordings (15 people) into features, on two processes.

    python benchmarks/wesad_wrist.py [--data ../shared/data/wesad-wrist-raw] [--clients 15]
        [--workers 2] [--out FOLDER]

The recordings lie there as compact arrays, with acceleration and labels at 4 Hz; from there on they
take the way of the official files. `--out` writes the federation.
"""

from __future__ import annotations

import argparse
import functools
import json
import lzma
import os
import sys
import time
from pathlib import Path

import numpy as np

from fedsub_core.data.federation import write_federation
from fedsub_data.preparing.options import WESADOptions
from fedsub_data.preparing.preparation import each_person
from fedsub_data.preparing.wesad.preparer import together, windows_of
from fedsub_data.preparing.wesad.recording import Recording, Signal, Windows

REAL = os.environ.get("FEDSUB_DATA", "../shared/data")
TINY = ["--clients", "1", "--workers", "1"]
#: One person's hours alone take most of a minute.
SLOW = True
#: What the lines of results begin with.
LINES = ("S2 ", "people:", "windows kept:")
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


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(REAL, "wesad-wrist-raw"))
    parser.add_argument("--clients", type=int, default=0, help="the first ones alone; 0 = all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    return parser.parse_args([*TINY, *sys.argv[1:]]) if given.tiny else given


def main() -> None:
    arguments = read_arguments()
    options = WESADOptions(signals="wrist")
    people = dict(list(recordings(arguments.data).items())[: arguments.clients or None])
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
