"""Peak memory of a large federation: 1,000 clients of 100 samples, three FedSub rounds.

    python benchmarks/memory.py [--clients 1000] [--samples 100] [--rounds 3]
        [--k-selection dbi-capped]

The paper's `dbi` tries every K up to the number of clients; a thousand of them take that rule
long, which is why the capped one is the default here. Memory is the same.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from simulation import Rounds, federation  # a script beside this one

from fedsub_core.config.run_config import read_config

TINY = ["--clients", "8", "--samples", "30", "--rounds", "2"]
#: What the lines of results begin with.
LINES = ("round 1:", "round 2:")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k-selection", default="dbi-capped")
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    return parser.parse_args([*TINY, *sys.argv[1:]]) if given.tiny else given


def main() -> None:
    arguments = read_arguments()
    config = read_config(
        None, {"method": "fedsub", "device": "cpu", "fedsub.k-selection": arguments.k_selection}
    )
    rounds = Rounds(config, "fedsub", federation(arguments.clients, arguments.samples))
    for round in range(1, arguments.rounds + 1):
        start = time.perf_counter()
        rounds()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"round {round}: {time.perf_counter() - start:6.1f} s, peak {peak:5.2f} GiB")


if __name__ == "__main__":
    main()
