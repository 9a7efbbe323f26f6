"""Every method of the table on one real federation: what it reached, sent and took.

    python benchmarks/methods.py [--data ../shared/data/wisdm] [--rounds 60] [--lr 0.005 0.05]
        [--seed 0] [--clients 36]

All methods have the same split, the data card's own, the same seed and the same learning rate;
`local`, which sends nothing, is among them. Seconds are in units of fedavg's in the same run. The
second table counts the lines of each method's files, its card and its two halves.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.methods.table import METHODS
from fedsub_server.results import REACHED, Column, method_summaries, text_table
from fedsub_server.summaries import MethodSummary

ROOT = Path(__file__).resolve().parents[1]
REAL = os.environ.get("FEDSUB_DATA", "../shared/data")
TINY = ["--data", f"{REAL}/wisdm", "--clients", "3", "--rounds", "1", "--lr", "0.05"]
#: What the lines of results begin with.
LINES = (*(f"{name} " for name in METHODS), *(f"{name}: " for name in METHODS))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=f"{REAL}/wisdm")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--lr", type=float, nargs="+", default=[0.005, 0.05])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, help="the first so many; all by default")
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    return parser.parse_args([*TINY, *sys.argv[1:]]) if given.tiny else given


def train_all(people: Federation, rounds: int, lr: float, seed: int) -> list[MethodSummary]:
    """Train every method of the table; return what each reached."""
    config = read_config(
        None,
        {
            "method": "fedsub",
            "beside": ",".join(name for name in METHODS if name != "fedsub"),
            "rounds": rounds,
            "lr": lr,
            "seed": seed,
        },
    )
    with tempfile.TemporaryDirectory() as temporary:
        for name in METHODS:
            train_method(config, name, people, Path(temporary, name), lambda round: None)
        return method_summaries(Path(temporary))


def costs(summaries: Sequence[MethodSummary]) -> list[Column]:
    """Return columns of what a method took: full models a round, and time."""
    (plain,) = (s.seconds for s in summaries if s.method == "fedavg")

    def models(count: float | None) -> str:
        return "-" if count is None else f"{count:.2f}"

    return [
        Column("models\nup", lambda s: models(s.full_models_up_sent)),
        Column("\ndown", lambda s: models(s.full_models_down_sent)),
        Column("down to\nevaluate", lambda s: models(s.full_models_evaluation_sent)),
        Column("time /\nfedavg's", lambda s: f"{s.seconds / plain:.1f}"),
    ]


def own_lines(method: str, spot: str) -> str:
    """Return how many lines a method's ``module:Class`` has, or whose it shares."""
    module, own = spot.partition(":")[0].split("."), method.replace("-", "_")
    if own not in module:
        return f"{module[-1].replace('_', '-')}'s"
    path = ROOT.joinpath(*module[: module.index(own) + 1])
    files = path.glob("**/*.py") if path.is_dir() else [path.with_suffix(".py")]
    return str(sum(len(file.read_text().splitlines()) for file in files))


def main() -> None:
    arguments = read_arguments()
    people = load_federation(arguments.data)
    if arguments.clients:
        names = list(people.clients)[: arguments.clients]
        people = Federation(people.card, {name: people.clients[name] for name in names})
    for lr in arguments.lr:
        print(
            f"\n{arguments.data}: {len(people.clients)} clients, {arguments.rounds} rounds, split "
            f"auto, seed {arguments.seed}, lr {lr:g}",
            flush=True,
        )
        summaries = train_all(people, arguments.rounds, lr, arguments.seed)
        print(text_table(summaries, [*REACHED, *costs(summaries)]), flush=True)
    print("\nlines of")
    for name, card in METHODS.items():
        parts = {"card": f"fedsub_core.methods.{name.replace('-', '_')}", "learner": card.learner}
        counts = (
            f"{part} {own_lines(name, spot)}"
            for part, spot in (parts | {"strategy": card.strategy}).items()
        )
        print(f"{name}: ".ljust(18) + ", ".join(counts))


if __name__ == "__main__":
    main()
