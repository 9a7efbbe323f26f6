"""What means of models over rounds would give: the last model beside the mean, on the same runs.

Macro F1 and loss of people's models as they end, and of means over about five rounds, which
``smooth`` makes; what trains is as without. For methods whose trained models are tested.
With --validation on the part of the training data that studies choose values on.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch
from script import REAL, put_lines, read_arguments

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.studies.tuning import tuning_run
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.evaluation import evaluate

#: Federation, share of the labels, rate that the robust study chooses.
TABLES = (("uci-har-stats", 0.05, 0.2), ("uci-har-stats", 0.2, 0.2), ("wesad", 1.0, 0.05),
          ("wisdm-stats", 0.2, 0.2))  # fmt: skip
KEPT = 0.8
TINY = ["--rounds", "2", "--seeds", "0"]
LINES = tuple(f"{data} {share}" for data, share, _ in TABLES)


def last_and_mean(config: RunConfig, federation: Federation) -> list[tuple[float, float]]:
    """Return macro F1 and loss of everybody's last model, and of its mean over rounds."""
    grid, strategy = (
        build_grid(config, config.method, federation),
        build_strategy(config, config.method),
    )
    strategy.start(grid)
    found = []
    for mean in (False, True):
        results: list[tuple[float, float]] = []
        for cohort in grid.cohorts:
            learner = cohort.learner
            params = (learner.predicted_by if mean else learner.personal)(cohort.state)
            test = cohort.data.at(config.rounds, strategy.population.agreed.scaling)[1]
            with torch.no_grad():
                logits = learner.predictor.forward(params, test.x)
            measured = evaluate(logits, test.y, test.valid)
            results += zip(measured.macro_f1.tolist(), measured.loss.tolist(), strict=True)
        found.append((fmean(f1 for f1, _ in results), fmean(loss for _, loss in results)))
    grid.close()
    return found


def run(given: Namespace, table: Sequence[str | float], seed: int) -> list[float]:
    """Return F1 and loss of the last models, F1 and loss of the means."""
    data, share, lr = table
    keys = {
        "method": given.method, "beside": "", "data": f"{REAL}/{data}", "split": "blocked",
        "rounds": given.rounds, "evaluate-every": given.rounds, "lr": lr, "seed": seed,
        "train-share": share, "device": "cpu", "threads": 1, "standardise": "federation",
    }  # fmt: skip
    said = {key: float(value) for key, _, value in (one.partition("=") for one in given.set)}
    said[f"{given.method}.smooth"] = KEPT
    config = read_config(None, {**keys, **said})
    federation = load_federation(config.data)
    if given.validation:
        federation, config = tuning_run(federation, config)
    return [number for pair in last_and_mean(config, federation) for number in pair]


def main() -> None:
    given = read_arguments(
        TINY, method="ditto", set=[], rounds=100, seeds=[0, 1, 2], validation=False, csv=Path
    )
    torch.set_num_threads(1)
    print(f"{given.method} {' '.join(given.set)}: macro F1 / loss of the last model, of the mean")
    lines = []
    for table in TABLES:
        each = [run(given, table, seed) for seed in given.seeds]
        f1, loss, mean_f1, mean_loss = (fmean(column) for column in zip(*each, strict=True))
        print(f"{table[0]} {table[1]}: {f1:.3f} / {loss:.3f}, {mean_f1:.3f} / {mean_loss:.3f}")
        row = " ".join([given.method, *given.set])
        lines.append((row, *table[:2], f"{f1:.3f}", f"{mean_f1:.3f}"))
    put_lines(
        given.csv, ("method", "data", "train-share", "macro F1", "of the mean"), lines, keys=3
    )


if __name__ == "__main__":
    main()
