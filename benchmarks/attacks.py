"""What hostile devices cost the others: points of macro F1 lost, by method, attack and defence.

    python benchmarks/attacks.py --table benchmarks/attacks.csv [more.csv ...]

The attacks are in `attackers.py`. The first `--malicious` people attack in every round, all alike;
they are in the run's data, so without an attack they train as everybody. `fedsub-mixing` is FedSub
whose clusters are dbi-capped and whose fusion is overlapping-any: with the default rule nearly
every cluster is one person, whom nobody can harm. In brackets: of the others' test windows of other
classes, with the backdoor's trigger stamped on them, the share that is taken for its class.
"""

import logging
from argparse import Namespace
from collections.abc import Sequence
from itertools import cycle
from math import nan
from pathlib import Path
from statistics import fmean

from attack_runs import honest_result
from attack_tables import HEAD, beyond, by_method, read, write
from attackers import ATTACKS
from script import REAL, Known, add_rows, read_arguments
from trained import first_people

from fedsub_core.data.federation import Federation
from fedsub_core.methods.table import METHODS as TABLE
from fedsub_core.options import Value

TINY = ["--data", f"{REAL}/wisdm", "--clients", "4", "--rounds", "1", "--methods", "fedavg"]
TINY += ["fedsub-mixing", "--defences", "none", "clip,median", "--seeds", "0", "--attacks"]
TINY += ["nobody", "scaled", "backdoor, samples", "outlier prototypes", "handshake"]
#: Of the table all that send something.
METHODS = (*(name for name in TABLE if name != "local"), "fedsub-mixing")
#: The default, and what docs/deployment.md recommends where devices are not one's own.
DEFENCES = ("clip", "clip,median", "clip,multi-krum")
TABLES = (
    "files of numbers: print their tables, write all lines to the first; the last of equal keys"
)
LINES = tuple(
    f"{name} {one} " for name in ("fedavg", "fedsub-mixing") for one in ("nobody", "scaled")
)


def main() -> None:
    given = read_arguments(
        TINY,
        data=f"{REAL}/wisdm",
        clients=10,
        skip=(0, "people before the first one"),
        rounds=30,
        malicious=1,
        methods=Known(METHODS),
        attacks=Known(ATTACKS),
        defences=[*DEFENCES],
        seeds=[0, 1, 2],
        lr=0.05,
        capacities=([str], "of the people in turn; the first attack"),
        out=Path,
        table=([Path], TABLES),
    )
    if given.table:
        lines = read(given.table)
        write(lines, given.table[0])
        print("\n".join([*by_method(lines, DEFENCES[0]), "", *beyond(lines, DEFENCES[0])]))
        return
    logging.getLogger("fedsub").setLevel(logging.ERROR)  # each refused upload is a line
    people = first_people(given.data, given.clients, given.skip)
    names = list(people.clients)
    print(
        f"{given.data}: {len(names)} people, {given.malicious} malicious, {given.rounds} rounds, "
        f"lr {given.lr:g}, seeds {given.seeds}; points of macro F1 that the others lose\n{'':38}",
        *(f"{defence:>24}" for defence in given.defences),
    )
    for name in given.methods:
        table(people, names[: given.malicious], name, given)


def table(people: Federation, malicious: Sequence[str], name: str, given: Namespace) -> None:
    """Print what each attack costs under each defence, a line at a time."""
    calm: dict[tuple[str, int], float] = {}
    shares = zip(people.clients, cycle(given.capacities or ()), strict=False)
    held = ",".join(f"{client}={share}" for client, share in shares) or "1"
    for attack in given.attacks:
        if not sends_such(name, attack):
            continue
        shown = []
        for defence in given.defences:
            if not takes(name, defence):
                shown.append("none such")
                continue
            found: list[tuple[float, float] | None] = []
            for seed in given.seeds:
                keys: dict[str, Value] = {"rounds": given.rounds, "lr": given.lr, "seed": seed}
                keys |= {"robust": defence, "evaluate-every": given.rounds, "capacities": held}
                keys["robust-share"] = max(0.2, len(malicious) / len(people.clients))
                found.append(honest_result(people, keys, name, malicious, attack))
                if attack == "nobody":
                    assert found[-1] is not None
                    calm[defence, seed] = found[-1][0]
            shown.append(
                in_words(found, [calm.get((defence, s), nan) for s in given.seeds], attack)
            )
            if given.out:
                about, each = (name, attack, defence), zip(given.seeds, found, strict=True)
                rows = [(*about, len(malicious), s, *(one or ("", ""))) for s, one in each]
                add_rows(given.out, HEAD, rows)
        print(f"{name} {attack}".ljust(38), *(f"{one:>24}" for one in shown), flush=True)


def sends_such(name: str, attack: str) -> bool:
    """Return whether a method's uploads hold what an attack lies about."""
    if "sums" in attack:
        return name == "fedsub-ridge"
    return "prototypes" not in attack or name in ("fedsub", "fedsub-gated", "fedsub-mixing")


def takes(name: str, defence: str) -> bool:
    """Return whether a method has a mean that a defence can replace."""
    return name != "fedamp" or defence in ("none", "clip")


def in_words(
    found: Sequence[tuple[float, float] | None], calm: Sequence[float], attack: str
) -> str:
    """Return the points lost in the mean, the runs that ended, and how often a backdoor works."""
    kept = [(one, before) for one, before in zip(found, calm, strict=True) if one is not None]
    if len(kept) < len(found):
        return f"{len(found) - len(kept)} of {len(found)} ended"
    if attack == "nobody":
        return f"{fmean(one[0] for one, _ in kept):.3f}"
    lost = 100 * fmean(before - one[0] for one, before in kept)
    fell = fmean(one[1] for one, _ in kept)
    return f"{lost:.1f}" + (f" ({fell:.2f})" if attack.startswith("backdoor") else "")


if __name__ == "__main__":
    main()
