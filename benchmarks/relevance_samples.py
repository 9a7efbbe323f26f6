"""FedSub's macro F1 with relevance from all samples and from few of each class, over seeds.

Clusters mix people (`dbi-capped`, `overlapping-any`): with the paper's rule for K nearly everybody
is alone, and no unit comes from others whatever is selected. F1 is the mean over people of the last
five rounds. Differences are of the same seed: split, start and batches are the same.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev

import torch
from script import REAL, put_rows, read_arguments

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, read_federation
from fedsub_core.metrics import MetricRow

SETS = ("wisdm-stats", "uci-har-stats")
TINY = ["--data", f"{REAL}/wisdm-stats", "--seeds", "2", "--rounds", "1", "--few", "4"]
LINES = ("wisdm-stats, all", "wisdm-stats, 4")
#: Rounds at the end over which F1 is a mean.
LAST = 5


def scores(people: Federation, seed: int, rounds: int, few: int) -> tuple[float, float]:
    """Return macro F1 of the last rounds, and the bytes that a person sends in one of them."""
    keys: dict[str, str | int | float | bool] = {
        "method": "fedsub", "beside": "", "rounds": rounds, "seed": seed, "lr": 0.05,
        "device": "cpu", "threads": 1, "fedsub.k-selection": "dbi-capped",
        "fedsub.fusion": "overlapping-any", "fedsub.relevance-samples": few,
    }  # fmt: skip
    config = read_config(None, keys)
    grid, strategy = build_grid(config, "fedsub", people), build_strategy(config, "fedsub")
    rows: list[MetricRow] = []

    def keep(round: int, state: Mapping[str, object], more: list[MetricRow]) -> None:
        rows.extend(row for row in more if row.client and row.round > rounds - LAST)

    strategy.on_round = keep  # type: ignore[assignment]
    try:
        strategy.start(grid)
    finally:
        grid.close()
    found = [mean(r.value for r in rows if r.metric == m) for m in ("macro_f1", "bytes_up_sent")]
    return found[0], found[1]


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=[f"{REAL}/{name}" for name in SETS],
        seeds=4,
        rounds=25,
        few=([16, 8, 4], "of a class"),
        csv=Path,
    )
    torch.set_num_threads(1)
    for path in arguments.data:
        people, name = read_federation(Path(path)), Path(path).name
        found: dict[int, list[tuple[float, float]]] = {few: [] for few in (0, *arguments.few)}
        for seed in range(arguments.seeds):
            for few, of in found.items():
                of.append(scores(people, seed, arguments.rounds, few))
        rows = []
        for few, of in found.items():
            f1, sent = ([one[i] for one in of] for i in range(2))
            more = [a - b for a, (b, _) in zip(f1, found[0], strict=True)]
            samples = str(few or "all")
            print(
                f"{name}, {samples}: macro F1 {mean(f1):.4f}, {mean(more):+.4f} of all's "
                f"(deviation over {len(of)} seeds {stdev(more):.4f}), bytes {mean(sent):.0f}"
            )
            rows.append(
                {"data": name, "samples of a class": samples, "seeds": len(of),
                 "rounds": arguments.rounds, "macro F1": f"{mean(f1):.4f}",
                 "more than with all": f"{mean(more):+.4f}", "deviation": f"{stdev(more):.4f}",
                 "bytes up": f"{mean(sent):.0f}"}
            )  # fmt: skip
        put_rows(arguments.csv, rows, ("data", "samples of a class"))


if __name__ == "__main__":
    main()
