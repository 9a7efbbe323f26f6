"""Write `studies/results/own-heads.csv`: the closed-form twin of the tables of `studies/`.

Own heads are solved of each person's own samples alone, nothing is trained and nothing is sent. Of
each table of the studies below, split and standardised as there: what they reach on the same test
parts. Tables whose data do not lie in `--data` are named and left out. Lines of other tables
stay in the file; each is written when its table ends.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from script import put_rows, read_arguments

from fedsub.engines.simulation import split_clients
from fedsub.report.comparing import interval
from fedsub_client.new_cohort import make_cohort
from fedsub_client.own_heads import own_heads
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import WATCH, load_federation
from fedsub_core.data.standardise import POOLS, Scaling, moments, scaling
from fedsub_core.metric_names import OWN_HEADS

ROOT = Path(__file__).resolve().parents[1]
STUDIES = (ROOT / "studies", ROOT / "fedsub_papers" / "studies")
#: Whose tables have a line: those that docs/which-method.md shows.
FILES = ("base", "robust", "rivals", "paper-static")
#: What changes own heads; tables that differ in nothing else have one line.
DECIDES = ("data", "train-share", "split", "standardise")
TINY = ["--only", WATCH, "--seeds", "1"]
LINES = ("watch",)


def tables(only: list[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the settings of each table, once."""
    seen = []
    files = [folder / f"{name}.toml" for name in FILES for folder in STUDIES]
    for file in filter(Path.exists, files):
        study = tomllib.loads(file.read_text("utf-8"))
        for vary in study.get("vary", [{}]):
            if vary.keys() & {"unlabelled", "encoder"}:
                continue
            values = [value if isinstance(value, list) else [value] for value in vary.values()]
            for each in product(*values):
                of = study["run"] | dict(zip(vary, each, strict=True))
                table = {key: of[key] for key in DECIDES if key in of}
                if table not in seen and (only is None or table["data"] in only):
                    seen.append(table)
                    yield table


def name_of(table: Mapping[str, Any]) -> str:
    """Return a line's name."""
    share = table.get("train-share")
    labels = [] if share is None else [f"{share:.0%} of the labels"]
    rest = [f"{key} = {table[key]}" for key in ("split", "standardise") if key in table]
    return ", ".join([table["data"], *labels, *rest])


def reached(federation: Federation, config: RunConfig) -> dict[str, dict[str, float]]:
    """Return the scores of everybody's own head."""
    settings = config.device_settings(config.method)
    people = split_clients(settings.split, federation, config.capacity_settings)
    shared: Scaling | None = None
    if config.standardise in POOLS:
        shared = scaling(POOLS[config.standardise]([moments(one.train_x) for one in people]))
    cohort = make_cohort(settings, federation.card, people)
    how = cohort.own_encoder, len(federation.card.classes), 1, shared, range(len(people))
    found = own_heads(cohort.data, *how)
    return {one.client: dict(of) for one, of in zip(people, found, strict=True) if of}


def line_of(table: Mapping[str, Any], federation: Federation, seeds: int) -> dict[str, str]:
    """Return a table's line, by column: means over people of each person's mean over seeds."""
    options: dict[str, Any] = {key: value for key, value in table.items() if key != "data"}
    options |= {"method": "local", "beside": ""}
    of_seed = [
        reached(federation, read_config(None, options | {"seed": seed})) for seed in range(seeds)
    ]
    people = sorted(set().union(*of_seed))
    row = {"row": name_of(table), "people": str(len(people)), "seeds": str(seeds)}
    f1, _, loss = (
        np.array([np.mean([one[who][name] for one in of_seed if who in one]) for who in people])
        for name in OWN_HEADS
    )
    low, high = interval(f1) or (np.nan, np.nan)
    tenth = np.mean([np.percentile([p[OWN_HEADS[0]] for p in s.values()], 10) for s in of_seed])
    row |= {"macro F1": f"{f1.mean():.3f}", "low": f"{low:.3f}", "high": f"{high:.3f}"}
    row |= {"10 %": f"{tenth:.3f}", "loss": f"{loss.mean():.3f}"}
    return row


def main() -> None:
    """Solve every table's own heads, print its line, and write all of them."""
    args = read_arguments(TINY, data=Path(), only=[str], seeds=(3, "how many, from 0 on"), csv=Path)
    for table in tables(args.only):
        source = table["data"] if table["data"] == WATCH else args.data / table["data"]
        if table["data"] != WATCH and not source.is_dir():
            print(f"left out: {name_of(table)}: no folder {source}", file=sys.stderr)
            continue
        line = line_of(table, load_federation(str(source)), args.seeds)
        print(*line.values(), flush=True)
        put_rows(args.csv, [line], ["row"])


if __name__ == "__main__":
    main()
