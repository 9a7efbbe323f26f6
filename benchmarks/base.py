"""Write `studies/results/base.csv`: heads in closed form on each table of `studies/base.toml`.

Rows of a table: heads of own samples alone, of everybody's sums, mixed (the default), and mixed
without the classes that a person has no sample of; of windows also mixed on kernels without
statistics. Tables whose data do not lie in `--data` are named and left out. Lines of other
tables stay in the file; each is written when its table ends. Under a line stand the people who lose
most against heads of their own: a mean over tables hides a fault that few people meet.
"""

import sys
import tempfile
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from script import put_rows, read_arguments

import fedsub
from fedsub.report.comparing import interval
from fedsub_core.data.sources import WATCH

STUDY = Path(__file__).resolve().parents[1] / "studies" / "base.toml"
TINY = ["--only", WATCH, "--seeds", "2"]
LINES = ("watch",)
#: After three rounds nothing changes.
ROUNDS = 4
OWN, EVERYBODY, MIXED, CLOSED, KERNELS = "own", "everybody", "fedsub-ridge", "closed", "kernels"
ROWS = {
    OWN: {"method": "fedsub-ridge", "heads": "own"},
    EVERYBODY: {"method": "fedsub-ridge", "heads": "everybody"},
    MIXED: {"method": "fedsub-ridge"},
    CLOSED: {"method": "fedsub-ridge", "open-classes": "off"},
}
#: Data whose samples are windows, and their encoder without statistics.
WINDOWS, WITHOUT = ("uci-har", "wisdm-windows", "watch", "wesad-windows"), "kernels:100"
NAMES = {
    OWN: "own head",
    EVERYBODY: "everybody's head",
    MIXED: "fedsub-ridge",
    CLOSED: "open-classes = off",
    KERNELS: "kernels alone",
}
#: Differences of macro F1 that have a column: what they are called, of which row, less which.
AGAINST = (
    ("over the better of own and everybody's", MIXED, None),
    ("open-classes = off over own", CLOSED, OWN),
    ("statistics beside kernels", MIXED, KERNELS),
)


def tables(only: list[str] | None, file: Path = STUDY) -> Iterator[dict[str, Any]]:
    """Yield the settings of each table of a study whose samples are as they come."""
    study = tomllib.loads(file.read_text("utf-8"))
    shared = {"split": study["run"]["split"]}
    for vary in study["vary"]:
        if "encoder" in vary:
            continue
        values = [value if isinstance(value, list) else [value] for value in vary.values()]
        for each in product(*values):
            settings = dict(zip(vary, each, strict=True))
            if only is None or settings["data"] in only:
                yield shared | settings


def compared(people: pd.DataFrame, first: str, second: str) -> tuple[str, str, str]:
    """Return the mean difference over people, each the mean of its seeds, and its interval."""
    means = people.groupby(["row", "person"])["macro_f1"].mean()
    each = (means[first] - means[second]).to_numpy(np.float64)
    low, high = interval(each) or (np.nan, np.nan)
    return f"{each.mean():+.3f}", f"{low:+.3f}", f"{high:+.3f}"


def line_of(name: str, table: pd.DataFrame, people: pd.DataFrame, seeds: int) -> dict[str, str]:
    """Return a table's line, by column; without a row its columns are empty."""
    row = {"row": name, "people": str(people["person"].nunique()), "seeds": str(seeds)}
    for label, title in NAMES.items():
        there = label in table.index
        for column, key in (("macro F1", "macro_f1"), ("10 %", "p10"), ("loss", "loss")):
            row[f"{title}: {column}"] = f"{table.loc[label, key]:.3f}" if there else ""
    better = max((OWN, EVERYBODY), key=lambda label: float(table.loc[label, "macro_f1"]))
    for title, first, second in AGAINST:
        column = f"{title} (95 %)"
        there = second is None or second in table.index
        found = compared(people, first, second or better) if there else ("", "", "")
        row[column], row[f"{column}: low"], row[f"{column}: high"] = found
    for label in (MIXED, CLOSED):
        of = table.loc[label]
        row[f"{NAMES[label]}: better / worse than alone beyond noise"] = (
            f"{of['better_beyond_noise']:.0f} / {of['worse_beyond_noise']:.0f} of {of['of']:.0f}"
        )
    return row


def lose_most(people: pd.DataFrame, count: int = 5) -> Iterator[str]:
    """Yield a line of each of `count` people whose mixture is farthest below own heads."""
    means = people.groupby(["row", "person"])["macro_f1"].mean()
    less = (means[MIXED] - means[OWN]).nsmallest(count)
    for person, difference in less[less < 0].items():
        yield f"  {person}: {difference:+.3f} against its own head's {means[OWN][person]:.3f}"


def reached(
    source: Any, rows: dict[str, Any], args: Namespace, options: dict[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a comparison's table and people."""
    with tempfile.TemporaryDirectory(prefix="fedsub-base-") as folder:
        found = fedsub.compare(
            source, rows, ROUNDS, seeds=range(args.seeds), folder=folder, jobs=args.jobs,
            progress=False, **options,
        )  # fmt: skip
        return found.table, found.people


def main() -> None:
    """Run every table, print its line, and write all of them."""
    args = read_arguments(
        TINY,
        data=Path(),
        only=[str],
        seeds=(10, "how many, from 0 on"),
        csv=Path,
        jobs=(1, "runs at a time"),
    )
    for settings in tables(args.only):
        data = settings.pop("data")
        share = settings.get("train-share")
        name = data if share is None else f"{data}, {share:.0%} of the labels"
        source = data if data == WATCH else args.data / data
        if data != WATCH and not source.is_dir():
            print(f"left out: {name}: no folder {source}", file=sys.stderr)
            continue
        options = {key.replace("-", "_"): value for key, value in settings.items()}
        found = [reached(source, ROWS, args, options)]
        if data in WINDOWS:
            row = {KERNELS: ROWS[MIXED]}
            found.append(reached(source, row, args, options | {"encoder": WITHOUT}))
        table, people = (pd.concat(parts) for parts in zip(*found, strict=True))
        one = line_of(name, table, people, args.seeds)
        print(name, *list(one.values())[1:], flush=True)
        print(*lose_most(people), sep="\n", flush=True)
        put_rows(args.csv, [one], ["row"])


if __name__ == "__main__":
    main()
