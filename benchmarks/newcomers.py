"""Write `studies/results/newcomers.csv`: what people reach who come after a run's last round.

People are left out fold by fold. `fedsub-ridge` runs with the others, and each newcomer gets a head
by `Run.adapt`, of the run's sums and so many labels of each class. Beside it: the head of these
labels alone; a random forest of scikit-learn on statistics of the others' training windows, which
uses no label of the newcomer; and the mean of what that forest and one of these labels say. All are
tested on the newcomer's test part. Lines of other data and numbers of labels stay in the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rival_parts import statistics_of
from script import REAL, put_rows, read_arguments
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score

import fedsub
from fedsub.report.comparing import interval
from fedsub_client.split_client import split_client
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.federation import Federation
from fedsub_core.data.held_out import few_of_each
from fedsub_core.data.sources import WATCH, load_federation
from fedsub_core.metric_names import OWN_HEADS
from fedsub_core.metrics import ClientMetrics
from fedsub_core.seeds import derive_seed

TINY = ["--data", WATCH, "--folds", "2", "--seeds", "1", "--labels", "0", "1", "--trees", "5"]
LINES = ("watch, 0 labels a class", "watch, 1 label a class")
#: After three rounds nothing changes.
ROUNDS = 4
CONTENDERS = {
    "newcomer": "newcomer's head",
    "alone": "own labels alone",
    "forest": "pooled forest",
    "both": "pooled and own forest",
}
AGAINST = ("alone", "forest", "both")
Scores = tuple[float, float]


def folds(federation: Federation, count: int, seed: int) -> Iterator[list[str]]:
    """Yield the people who are left out together, each person once."""
    stream = np.random.default_rng(derive_seed(seed, "", 0, "folds"))
    order = stream.permutation(sorted(federation.clients))
    yield from (sorted(part.tolist()) for part in np.array_split(order, count))


@dataclass(frozen=True)
class Forests:
    """A forest of others' training parts, and one of each newcomer's own labels."""

    pooled: RandomForestClassifier
    newcomers: Federation
    how: SplitSettings

    @classmethod
    def of(cls, others: Federation, newcomers: Federation, trees: int, seed: int) -> Forests:
        """Return the forests of a fold."""
        how = SplitSettings(seed=seed)
        trained = [split_client(one, others.card, how) for one in others.clients.values()]
        forest = RandomForestClassifier(trees, random_state=seed, n_jobs=1)
        forest.fit(
            np.concatenate([statistics_of(one.train_x, others.card.features) for one in trained]),
            np.concatenate([one.train_y for one in trained]),
        )
        return cls(forest, newcomers, how)

    def scores(self, person: str, labels: int) -> dict[str, Scores]:
        """Return macro F1 and loss, nats, of the pooled one, and of both with some labels."""
        data, card, seed = self.newcomers.clients[person], self.newcomers.card, self.how.seed
        parts = split_client(data, card, self.how)
        tested = statistics_of(parts.test_x, card.features)
        pooled = _said(self.pooled, tested, len(card.classes))
        found = {"forest": self._judged(pooled, parts.test_y)}
        if labels:
            few = few_of_each(parts.train, data, labels, seed)
            own = RandomForestClassifier(self.pooled.n_estimators, random_state=seed, n_jobs=1)
            own.fit(statistics_of(data.x[few], card.features), data.y[few])
            both = (pooled + _said(own, tested, len(card.classes))) / 2
            found["both"] = self._judged(both, parts.test_y)
        return found

    def _judged(self, said: NDArray[np.float64], y: NDArray[np.int64]) -> Scores:
        # No tree may say a class: what half a tree would, is the least.
        right = np.maximum(said[np.arange(len(y)), y], 0.5 / self.pooled.n_estimators)
        f1 = f1_score(y, said.argmax(1), average="macro")
        return float(f1), float(-np.log(right).mean())


def _said(
    forest: RandomForestClassifier, x: NDArray[np.float64], classes: int
) -> NDArray[np.float64]:
    said = np.zeros((len(x), classes))
    said[:, forest.classes_] = forest.predict_proba(x)
    return said


def reached(
    federation: Federation, labels: Sequence[int], count: int, trees: int, seed: int
) -> Iterator[dict[str, object]]:
    """Yield scores of each newcomer and contender, with so many labels of each class."""
    for out in folds(federation, count, seed):
        parts = {
            inside: replace(
                federation,
                clients={c: d for c, d in federation.clients.items() if (c in out) == inside},
            )
            for inside in (False, True)
        }
        others, newcomers = parts[False], parts[True]
        with tempfile.TemporaryDirectory(prefix="fedsub-newcomers-") as folder:
            run = fedsub.run(
                others, "fedsub-ridge", ROUNDS, beside="", seed=seed, out=folder, progress=False,
                evaluate_every=ROUNDS,
            )  # fmt: skip
            adapted = {k: run.adapt(newcomers, samples_per_class=k) for k in labels}
        forests = Forests.of(others, newcomers, trees, seed)
        for k, found in adapted.items():
            for person, scores in found.scores.items():
                assert isinstance(scores, ClientMetrics)  # of classes, not of a target
                own = scores.own_heads
                both = {"newcomer": (scores.macro_f1, scores.loss)}
                if own:
                    both["alone"] = own[OWN_HEADS[0]], own[OWN_HEADS[2]]
                for contender, (f1, loss) in (both | forests.scores(person, k)).items():
                    yield {
                        "labels": k, "person": person, "seed": seed, "contender": contender,
                        "f1": f1, "loss": loss,
                    }  # fmt: skip


def line_of(name: str, people: pd.DataFrame, seeds: int) -> dict[str, str]:
    """Return a line: means over people of each one's mean over seeds; differences of people."""
    means = people.groupby(["contender", "person"])[["f1", "loss"]].mean()
    count = people["person"].nunique()
    row = {"row": name, "newcomers": str(count), "seeds": str(seeds)}
    there = set(people["contender"])
    for key, title in CONTENDERS.items():
        of = means.loc[key] if key in there else None
        row[f"{title}: macro F1"] = "" if of is None else f"{of['f1'].mean():.3f}"
        row[f"{title}: 10 %"] = "" if of is None else f"{np.percentile(of['f1'], 10):.3f}"
        row[f"{title}: loss"] = "" if of is None else f"{of['loss'].mean():.3f}"
    for key in AGAINST:
        column = f"over {CONTENDERS[key]} (95 %)"
        values = ["", "", ""]
        if key in there:
            gain = means.loc["newcomer"]["f1"] - means.loc[key]["f1"]
            low, high = interval(gain.to_numpy(np.float64)) or (np.nan, np.nan)
            values = [f"{value:+.3f}" for value in (gain.mean(), low, high)]
        titles = column, f"{column}: low", f"{column}: high"
        row |= dict(zip(titles, values, strict=True))
    return row


def main() -> None:
    """Leave people out of each federation, print a line for each number of labels, write all."""
    args = read_arguments(
        TINY,
        data=["uci-har", "wisdm-windows"],
        folds=5,
        seeds=(2, "how many, from 0 on"),
        labels=([0, 1, 5], "of each class"),
        trees=200,
        csv=Path,
    )
    for data in args.data:
        federation = load_federation(data if data == WATCH else str(Path(REAL, data)))
        rows = [
            row
            for seed in range(args.seeds)
            for row in reached(federation, args.labels, args.folds, args.trees, seed)
        ]
        people = pd.DataFrame(rows)
        for k in args.labels:
            name = f"{data}, {k} label{'' if k == 1 else 's'} a class"
            line = line_of(name, people[people["labels"] == k], args.seeds)
            shown = [value for value in list(line.values())[1:] if value]
            print(name, *shown, flush=True)
            put_rows(args.csv, [line], ["row"])


if __name__ == "__main__":
    main()
