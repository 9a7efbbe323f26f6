"""What heads in closed form cost, beside FedAvg's CNN on the same windows: seconds, memory, bytes.

Made-up windows of 3 x 128: three rounds of `fedsub-ridge`, all in one process, one thread a core;
FedAvg trains for `--fedavg-rounds` on the first number of people (0: not at all). And what one
device takes from its windows to its head, on one core.

Seconds by the clock, and those that cores computed, which other work beside does not change much.
The peak is of the process, made-up windows included: 150 KB a person.
"""

import statistics
import time
from pathlib import Path

import numpy as np
import torch
from script import put_rows, read_arguments
from trained import metrics_of

from fedsub.engines.peak_memory import forget_peak, peak_bytes
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.options import Value
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

CLASSES = 6
CARD = Card(
    name="made up",
    task="windows",
    classes=tuple("abcdef"),
    features=("x", "y", "z"),
    sampling_rate_hz=20.0,
    window_s=6.4,
    overlap=0.0,
    time_ordered=True,
)
TINY = ["--clients", "3", "4", "--windows", "20", "--fedavg-rounds", "1"]
LINES = ("fedsub-ridge, 3 people", "fedsub-ridge, 4 people", "fedavg, 3 people", "a device")


def federation(clients: int, windows: int) -> Federation:
    """Return people whose classes are waves of a frequency each, with noise."""
    time_s = np.arange(128) / 20.0
    people = {}
    for i in range(clients):
        stream = np.random.default_rng(i)
        y = np.sort(np.arange(windows) % CLASSES)
        phase = stream.uniform(0, 6.3, (windows, 3, 1))
        x = np.sin(6.3 * (0.5 + y[:, None, None]) * time_s + phase)
        x += stream.normal(0, 1, x.shape)
        people[f"p{i:05d}"] = ClientData(f"p{i:05d}", x.astype(np.float16), y)
    return Federation(CARD, people)


def run(config: RunConfig, people: Federation) -> tuple[float, float, int, float]:
    """Return seconds of a whole run and of its cores, peak memory, bytes sent up by one person."""
    forget_peak()
    start, computed = time.perf_counter(), time.process_time()
    rows = metrics_of(config, people)
    took = time.perf_counter() - start, time.process_time() - computed
    sent = sum(row.value for row in rows if row.metric == "bytes_up_sent")
    return *took, peak_bytes() or 0, sent / len(people.clients)


def device_seconds(config: RunConfig, people: Federation) -> float:
    """Return a device's seconds to encode its windows, sum them and solve its head."""
    settings = config.device_settings("fedsub-ridge")
    first = next(iter(people.clients.values()))
    parts = split_client(first, CARD, settings.split)
    took = []
    for _ in range(3):
        cohort = make_cohort(settings, CARD, [parts])
        start = time.perf_counter()
        cohort.fit(Turn(1, 3, 0), None, [0], [Bundle()])
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main() -> None:
    given = read_arguments(TINY, clients=[36, 1000], windows=200, fedavg_rounds=60, csv=Path)
    torch.set_num_threads(1)
    common: dict[str, Value] = {"beside": "", "device": "cpu", "evaluate-every": 1000}
    ours = read_config(None, {**common, "method": "fedsub-ridge", "rounds": 3})
    theirs = read_config(None, {**common, "method": "fedavg", "rounds": given.fedavg_rounds or 1})
    runs = [(ours, count) for count in given.clients]
    if given.fedavg_rounds:
        runs.append((theirs, given.clients[0]))
    for config, count in runs:
        took, computed, peak, sent = run(config, federation(count, given.windows))
        print(
            f"{config.method}, {count} people, {config.rounds} rounds: {took:7.1f} s "
            f"({computed:.1f} of cores), peak {peak / 2**20:6.0f} MiB, "
            f"{sent / 1e6:6.2f} MB up a person",
            flush=True,
        )
        if given.csv:
            row = {
                "row": f"{config.method}, {config.rounds} rounds",
                "people": f"{count:,}",
                "seconds of cores": f"{computed:.1f}",
                "peak memory, MiB": f"{peak / 2**20:,.0f}",
                "MB up a person": f"{sent / 1e6:.2f}",
            }
            put_rows(given.csv, [row], ["row", "people"])
    print(f"a device, windows to head: {device_seconds(ours, federation(1, given.windows)):.2f} s")


if __name__ == "__main__":
    main()
