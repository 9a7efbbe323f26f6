"""What weak devices get and give: macro F1 of weak and strong people in one federation.

`fedsub-ridge`, three rounds, on real federations in the folder FEDSUB_DATA, each with the share of
its labels that is kept. People take the capacities in turn. Of the people of each capacity: their
mean F1 in that federation, if all held everything, and if all held as little as they.
"""

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from script import REAL, put_rows, read_arguments
from trained import metrics_of

from fedsub_core.config.capacities import read_capacities
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation

ROUNDS = 3
TINY = ["--data", "watch:1", "--capacity", "0.5,1", "--seeds", "1"]
LINES = ("watch, capacity 0.5", "watch, capacity 1")
Scores = Mapping[str, float]


def scores(people: Federation, keys: Mapping[str, str], seed: int, capacities: str) -> Scores:
    """Return everybody's macro F1 after the last round."""
    given = {"seed": str(seed), "capacities": capacities, "method": "fedsub-ridge", "beside": ""}
    given |= {"rounds": str(ROUNDS), "evaluate-every": str(ROUNDS), "device": "cpu"}
    rows = metrics_of(read_config(None, {**given, **keys}), people)
    return {row.client: row.value for row in rows if row.metric == "macro_f1"}


def compare(name: str, share: str, mixed: str, seeds: int) -> Iterator[dict[str, str]]:
    """Yield and print a row for each capacity."""
    people = load_federation(name if name == "watch" else str(Path(REAL, name)))
    shares, keys = read_capacities(mixed)[0], {"train-share": share}
    of = {client: shares[i % len(shares)] for i, client in enumerate(people.clients)}
    mixed = ",".join(f"{client}={own}" for client, own in of.items())
    levels = sorted(set(of.values()))
    runs = {
        text: [scores(people, keys, seed, text) for seed in range(seeds)]
        for text in dict.fromkeys([mixed, "1", *(f"{level:g}" for level in levels)])
    }
    for level in levels:
        those = [client for client, own in of.items() if own == level]

        def mean(text: str, those: list[str] = those) -> float:
            return statistics.fmean(run[client] for run in runs[text] for client in those)

        row = {"together": mean(mixed), "all hold everything": mean("1")}
        row |= {"all hold as little": mean(f"{level:g}")}
        texts = {column: f"{value:.3f}" for column, value in row.items()}
        line = ", ".join(f"{value} {column}" for column, value in texts.items())
        print(f"{name}, capacity {level:g}, {len(those)} people: {line}", flush=True)
        of_whom = {
            "row": f"{name}, {100 * float(share):g} % of the labels",
            "capacity": f"{level:g}",
        }
        yield of_whom | texts


def main() -> None:
    given = read_arguments(
        TINY, data=["uci-har:0.05", "wisdm-windows:0.2"], capacity="0.25,0.5,1", seeds=5, csv=Path
    )
    torch.set_num_threads(1)
    for one in given.data:
        name, _, share = one.partition(":")
        rows = list(compare(name, share, given.capacity, given.seeds))
        put_rows(given.csv, rows, ["row", "capacity"])


if __name__ == "__main__":
    main()
