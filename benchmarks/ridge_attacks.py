"""What hostile devices cost the others of `fedsub-ridge`, on several federations, by default.

    python benchmarks/ridge_attacks.py --table benchmarks/results/attacks-ridge.csv

The attacks are `attackers.py`'s, as many of the first people attack. A line is a federation and an
attack: points of macro F1 that the others lose, in the mean over seeds, then of each seed.
"""

import csv
import logging
from argparse import Namespace
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from attack_runs import honest_result
from attackers import ATTACKS
from script import REAL, Known, add_rows, read_arguments, today
from trained import first_people

from fedsub.testing.lying_sums import LIES
from fedsub_core.options import Value

NOBODY, METHOD = "nobody", "fedsub-ridge"
FEDERATIONS = ("wisdm-windows", "wisdm-stats", "uci-har", "uci-har-stats")
SUCH = (NOBODY, *LIES, "opposite sums", "opposite sums, samples", "labels flipped", "samples")
SUCH += ("opposed sums, late", "corner sums, late", "handshake", "handshake, mean")
HEAD = ("data", "attack", "malicious", "seed", "calm", "macro_f1")
TINY = ["--data", f"{REAL}/wisdm-stats", "--clients", "4", "--rounds", "4", "--seeds", "0"]
TINY += ["--attacks", NOBODY, "torn sums", "swapped sums"]
LINES = ("wisdm-stats, torn sums ", "wisdm-stats, swapped sums ")


def main() -> None:
    given = read_arguments(
        TINY,
        data=[f"{REAL}/{name}" for name in FEDERATIONS],
        clients=10,
        rounds=6,
        malicious=1,
        attacks=Known(ATTACKS, SUCH),
        seeds=[0, 1, 2],
        csv=Path,
        table=(Path, "such a file: print its table"),
    )
    if given.table:
        print("\n".join(table(given.table)))
        return
    logging.getLogger("fedsub").setLevel(logging.ERROR)  # each refused upload is a line
    for folder in given.data:
        measure(Path(folder), given)


def measure(folder: Path, given: Namespace) -> None:
    """Print what attacks cost in one federation, a line each."""
    people = first_people(str(folder), given.clients)
    malicious = list(people.clients)[: given.malicious]
    calm: dict[int, float] = {}
    for attack in (NOBODY, *(name for name in given.attacks if name != NOBODY)):
        lost = []
        for seed in given.seeds:
            keys: dict[str, Value] = {"rounds": given.rounds, "seed": seed}
            keys["evaluate-every"] = given.rounds
            found = honest_result(people, keys, METHOD, malicious, attack)
            if attack == NOBODY:
                assert found is not None
                calm[seed] = found[0]
            lost.append(None if found is None else 100 * (calm[seed] - found[0]))
            if given.csv:
                about = (folder.name, attack, given.malicious, seed, calm[seed])
                add_rows(given.csv, HEAD, [[*about, "" if found is None else found[0]]])
        if attack == NOBODY:
            print(f"{folder.name}, macro F1 {fmean(calm.values()):.3f}", flush=True)
            continue
        kept = [one for one in lost if one is not None]
        mean = f"{fmean(kept):.1f}" if kept else "-"
        each = " ".join("ended" if one is None else f"{one:.1f}" for one in lost)
        print(f"{folder.name}, {attack} ".ljust(42), f"{mean} ({each})", flush=True)


def table(path: Path) -> list[str]:
    """Return the table of a file of numbers: points lost in the mean over seeds, and runs ended."""
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    federations = list(dict.fromkeys(line["data"] for line in lines))
    points, ended = defaultdict[tuple[str, ...], list[float]](list), defaultdict[str, int](int)
    for line in lines:
        who = f"{line['attack']}, {line['malicious']} of ten"
        if line["attack"] == NOBODY:
            continue
        ended[who] += not line["macro_f1"]
        if line["macro_f1"]:
            lost = 100 * (float(line["calm"]) - float(line["macro_f1"]))
            points[who, line["data"]].append(lost)
    shown = ["attack," + ",".join(federations) + ",mean,worst run,runs ended,written"]
    for who, ends in ended.items():
        each = [points[who, data] for data in federations]
        every = [one for some in each for one in some]
        cells = [f"{fmean(some):.1f}" if some else "-" for some in each]
        both = (f"{fmean(every):.1f}", f"{max(every):.1f}") if every else ("-", "-")
        shown.append(",".join([who.replace(",", ";"), *cells, *both, str(ends), today()]))
    return shown


if __name__ == "__main__":
    main()
