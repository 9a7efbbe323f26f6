"""Memory of a federation of raw windows whose rounds ask only a few people.

Memory that the system cannot take back for others (RssAnon, so Linux only), beyond what a process
has after its imports: after reading the folder, after three rounds of FedSub with the CNN, after
everybody was tested. Windows of 9 channels and 128 steps; the ratio is to their float32 bytes.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from processes import memory
from script import put_lines, read_arguments
from simulation import Rounds  # a script beside this one

from fedsub_core.config.run_config import read_config
from fedsub_core.data import feature_store
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, read_federation, write_federation

TINY = ["--clients", "6", "--windows", "20", "--asked", "2"]
LINES = ("read", "three rounds", "everybody tested")
CHANNELS, STEPS = 9, 128


def write(folder: Path, clients: int, windows: int) -> None:
    """Write a federation of noise."""
    rng, y = np.random.default_rng(0), np.arange(windows, dtype=np.int64) % 6
    shape = windows, CHANNELS, STEPS
    people = {
        f"{i:05d}": ClientData(f"{i:05d}", rng.standard_normal(shape, dtype=np.float32), y)
        for i in range(clients)
    }
    card = Card("noise", "memory", tuple("abcdef"), tuple("123456789"))
    write_federation(folder, Federation(card, people))


def main() -> None:
    arguments = read_arguments(
        TINY,
        clients=300,
        windows=(300, "of each client"),
        asked=(10, "clients of a round"),
        csv=Path,
    )
    torch.set_num_threads(1)
    features = arguments.clients * arguments.windows * CHANNELS * STEPS * 4 / 2**20
    config = read_config(
        None,
        {"method": "fedsub", "model": "cnn1d", "beside": "", "device": "cpu", "threads": 1,
         "clients-per-round": arguments.asked},
    )  # fmt: skip
    print(
        f"features: {features:.0f} MiB, "
        f"{feature_store.MEMORY / 2**20:.0f} of them kept in memory at most"
    )
    with TemporaryDirectory() as folder:
        write(Path(folder, "data"), arguments.clients, arguments.windows)
        before, lines = memory("RssAnon"), list[tuple[str, ...]]()

        def line(what: str) -> None:
            more = (memory("RssAnon") - before) / 2**20
            lines.append((what, f"{more:.0f}", f"{more / features:.2f}"))
            print(f"{what:17} {more:6.0f} MiB  {more / features:.2f} of the features")

        data = read_federation(Path(folder, "data"))
        line("read")
        run = Rounds(config, "fedsub", data)
        for round in (1, 2, 3):
            run.strategy.run_round(run.grid, round, timeout=60, evaluated=False)
        line("three rounds")
        run()
        line("everybody tested")
        put_lines(arguments.csv, ["after", "MiB", "of the features' bytes"], lines, 1)


if __name__ == "__main__":
    main()
