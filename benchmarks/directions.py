"""How honest updates of FedAvg point: whether their direction could tell who is hostile.

Of each round: the cosine of each person's update with the weighted sum of all others', its mean
over people and the least, and how many of them are below 0, as that of a negated update would be.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from script import REAL, put_lines, read_arguments
from trained import first_people

from fedsub.engines.simulation import build_grid
from fedsub_core.config.run_config import read_config
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedavg import FedAvgServer
from strategies.parts.averaging import weights
from strategies.rounds.round import Round
from strategies.rounds.server_half import State
from strategies.strategy import PersonalizedStrategy

TINY = ["--clients", "4", "--rounds", "1"]
HEAD = ["federation", "people", "round", "mean cosine", "least", "people below 0"]
LINES = ("wisdm 4 1 ",)


def cosines(uploads: Mapping[str, Bundle], start: Mapping[str, torch.Tensor]) -> list[float]:
    """Return the cosine of each update with the weighted sum of all others."""
    ways = [
        torch.cat(
            [torch.tensor(one.floats(n)).flatten() - t.flatten() for n, t in start.items()]
        ).double()
        for one in uploads.values()
    ]
    added = torch.stack(ways) * torch.tensor(weights(uploads))[:, None]
    others = added.sum(0) - added
    return torch.nn.functional.cosine_similarity(added, others).tolist()


def main() -> None:
    given = read_arguments(
        TINY, data=f"{REAL}/wisdm", clients=10, rounds=20, lr=0.05, seed=0, csv=Path
    )
    people = first_people(given.data, given.clients)
    keys = {"rounds": given.rounds, "lr": given.lr, "seed": given.seed}
    config = read_config(
        None, {**keys, "method": "fedavg", "evaluate-every": given.rounds, "beside": ""}
    )
    lines: list[list[Any]] = []

    class Watched(FedAvgServer):
        def aggregate(self, state: State, round: Round, uploads: Mapping[str, Bundle]) -> Any:
            found = cosines(uploads, state)
            below = sum(one < 0 for one in found)
            shown = [f"{fmean(found):.2f}", f"{min(found):.2f}", below]
            lines.append([Path(given.data).name, len(people.clients), round.number, *shown])
            return super().aggregate(state, round, uploads)

    settings, grid = config.server_settings("fedavg"), build_grid(config, "fedavg", people)
    strategy = PersonalizedStrategy(settings, half=Watched(settings))
    try:
        strategy.start(grid)
    finally:
        grid.close()
    print("; ".join(HEAD))
    for line in lines:
        print(*line)
    put_lines(given.csv, HEAD, lines, 3)


if __name__ == "__main__":
    main()
