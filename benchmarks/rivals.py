"""Write `studies/results/rivals.csv`: what is no method of FedSub, on the parts of its runs.

The tables are those of `studies/known.toml`. Trees and neighbours see statistics of windows made by
hand, or vectors as they are. Each learner has three rows: of everybody's raw data, of own data
alone, and the mean of both probabilities. MiniRocket and Hydra are aeon's, which is no dependency:
`benchmarks/aeon_check.py` says what to install. Without it they are left out, by name.

The file of people has everybody's scores. What stands there is not measured again, but with
`--again`. All lines of results follow from it, so that seeds can be added one by one, and a row
that is measured again changes all differences.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from base import tables
from rival_learners import (
    Learn,
    boosted,
    extra_trees,
    hydra_features,
    minirocket,
    nearest,
    pooled_and_own,
    ridge,
)
from rival_parts import Table
from rival_scores import OURS, Line, People, line_of
from rival_sums import Sent, safle, two_streams
from script import Known, put_rows, read_arguments
from trained import metrics_of

from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import WATCH, load_federation
from fedsub_core.evaluation import evaluate
from fedsub_core.metric_names import OWN_HEADS
from fedsub_core.options import Value

STUDY = Path(__file__).resolve().parents[1] / "studies" / "known.toml"
TINY = ["--only", WATCH, "--seeds", "0", "--rows", "fedsub-ridge", "nearest neighbour"]
LINES = ("watch fedsub-ridge", "watch nearest neighbour, pooled")
KEY = ["table", "row"]
#: After three rounds nothing changes.
ROUNDS = 4
PRODUCT = {OURS: "mixed", "everybody's heads": "everybody"}
OWN_ROW = "own heads"
POOLED, OWN, BOTH = "pooled", "own", "pooled and own"

#: Of a table: what is said of each person's tested samples and sent, by row.
Rival = Callable[[Table], dict[str, Sent]]


def learner(name: str, learn: Learn, people: str) -> Rival:
    """Return a rival with three rows; it sees the attribute `people` of a table."""

    def rows(table: Table) -> dict[str, Sent]:
        seen = hydra_features(table) if people == "hydra" else getattr(table, people)
        raw = float(np.mean([one.x.astype(np.float32).nbytes for one in table.people]))
        found = pooled_and_own(name, learn, seen, table)
        return {
            row: Sent(said, 0.0 if row == f"{name}, {OWN}" else raw) for row, said in found.items()
        }

    return rows


def summed(name: str, rival: Callable[[Table], Sent]) -> Rival:
    """Return a rival with one row."""
    return lambda table: {name: rival(table)}


LEARNERS: dict[str, tuple[Learn, str]] = {
    "extra trees": (extra_trees, "by_hand"),
    "boosted trees": (boosted, "by_hand"),
    "nearest neighbour": (nearest, "by_hand"),
    "MiniRocket": (minirocket, "scaled"),
    "Hydra": (ridge, "hydra"),
}
SUMS = {"two streams": two_streams, "SAFLe": safle}
RIVALS = {name: learner(name, *of) for name, of in LEARNERS.items()}
RIVALS |= {name: summed(name, of) for name, of in SUMS.items()}
#: Rivals that need windows, and a package that may be absent.
OF_WINDOWS = ("MiniRocket", "Hydra")


def rows_of(name: str) -> list[str]:
    """Return the rows that a rival, or an option of the product, has in a table."""
    if name in LEARNERS:
        return [f"{name}, {way}" for way in (POOLED, OWN, BOTH)]
    return [name, OWN_ROW] if name == OURS else [name]


def every_row() -> list[str]:
    """Return all rows that a table may have, in their order."""
    return [row for name in (*PRODUCT, *RIVALS) for row in rows_of(name)]


def of_product(name: str, on: Federation, options: Mapping[str, Value]) -> list[Line]:
    """Return the line of a run of `fedsub-ridge`, and with mixed heads that of own heads."""
    more: dict[str, Value] = {
        "rounds": ROUNDS,
        "evaluate-every": ROUNDS,
        "fedsub-ridge.heads": PRODUCT[name],
    }
    rows = metrics_of(read_config(None, {**options, **more}), on)
    sent = sum(row.value for row in rows if row.metric == "bytes_up_sent") / len(on.clients)
    lines = []
    for row, metrics in ((name, ("macro_f1", "loss")), (OWN_ROW, (OWN_HEADS[0], OWN_HEADS[-1]))):
        f1, loss = (
            {one.client: one.value for one in rows if one.metric == metric and one.label is None}
            for metric in metrics
        )
        people = [one for one in on.clients if one in f1]
        values = np.array([[of[one] for one in people] for of in (f1, loss)])
        lines.append(line_of(row, values[0], values[1], sent if row == name else 0.0))
    return lines[: len(rows_of(name))]


def of_rival(name: str, table: Table) -> list[Line]:
    """Return a rival's lines."""
    found = []
    for row, sent in RIVALS[name](table).items():
        scores = []
        for said, one in zip(sent.logits, table.people, strict=True):
            right = torch.from_numpy(one.right)[None]
            judged = evaluate(torch.from_numpy(said)[None], right, torch.ones_like(right) > 0)
            scores.append((float(judged.macro_f1[0]), float(judged.loss[0])))
        f1, loss = np.array(scores).T
        found.append(line_of(row, f1, loss, sent.bytes_up))
    return found


def name_of(table: Mapping[str, Any]) -> str:
    """Return a table's name."""
    share = table.get("train-share")
    return str(table["data"]) + ("" if share is None else f", {share:.0%} of the labels")


def sends(row: str) -> str:
    """Return in a word what everybody sends."""
    if row.endswith(f", {OWN}") or row == OWN_ROW:
        return "nothing"
    return "raw data" if row.partition(",")[0] in LEARNERS else "sums"


def measure(
    table: str, on: Federation, options: Mapping[str, Value], of: People, args: Namespace
) -> None:
    """Measure what lacks of one table and seed, and print each row's means."""
    seed, parts = int(str(options["seed"])), None
    for name in args.rows:
        known = all((table, row, seed) in of.lines for row in rows_of(name))
        if known and not args.again:
            continue
        start = time.process_time()
        if name in PRODUCT:
            lines = of_product(name, on, options)
        else:
            parts = parts or Table.of(on, read_config(None, options))
            if name in OF_WINDOWS and (not parts.windows or find_spec("aeon") is None):
                if parts.windows:
                    print(f"left out: {table} {name}: no package aeon", file=sys.stderr)
                continue
            lines = of_rival(name, parts)
        of.add(table, seed, lines)
        for line in lines:
            f1, loss = (np.mean([float(v) for v in line[c].split()]) for c in ("macro F1", "loss"))
            took = f"({time.process_time() - start:.0f} s)"
            print(f"{table} {line['row']} {f1:.3f} {loss:.3f} seed {seed} {took}", flush=True)


def main() -> None:
    """Measure every table, seed by seed, and write what is known of it."""
    args = read_arguments(
        TINY,
        data=Path(),
        only=[str],
        rows=(Known([*PRODUCT, *RIVALS]), "some alone"),
        seeds=[*range(10)],
        again=(False, "measure also what is known"),
        csv=Path,
        people=(Path, "the file of everybody's scores, .csv.gz"),
    )
    torch.set_num_threads(1)
    of = People(args.people)
    every = every_row()
    order = [(name_of(one), row) for one in tables(None, STUDY) for row in every]
    for settings in tables(args.only, STUDY):
        name, data = name_of(settings), settings.pop("data")
        source = data if data == WATCH else args.data / data
        if data != WATCH and not source.is_dir():
            print(f"left out: {name}: no folder {source}", file=sys.stderr)
            continue
        on = load_federation(str(source))
        for seed in args.seeds:
            measure(name, on, {"method": OURS, "beside": "", "seed": seed, **settings}, of, args)
            put_rows(args.csv, of.summary(name, {row: sends(row) for row in every}), KEY, order)


if __name__ == "__main__":
    main()
