"""Predictions, parts and scores as rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fedsub.predictions.scores import Score, scored
from fedsub.predictions.tested import Predicted, RunSamples

Row = dict[str, Any]
#: What the column of a class's probability begins with.
PROBABILITY = "probability "


def prediction_rows(run: RunSamples, predicted: Iterable[Predicted]) -> Iterator[Row]:
    """Yield a row for each tested sample of each person and method.

    Columns: ``person``, ``method``, ``seed``, ``fold``, ``round``, ``index`` of the row in the
    person's file, ``t``, ``class``, ``predicted``, and ``probability NAME`` of each class. Without
    times ``t`` is empty.
    """
    names = run.federation.card.classes
    classes, columns = np.array(names), [f"{PROBABILITY}{name}" for name in names]
    for one in predicted:
        times = [None] * len(one.y) if one.t is None else one.t.tolist()
        whose = {"person": one.person, "method": one.method, "seed": one.seed, "fold": one.fold}
        whose |= {"round": one.round}
        true, likeliest = classes[one.y], classes[one.probabilities.argmax(1)]
        for i, shares in enumerate(one.probabilities.tolist()):
            row = {"index": int(one.index[i]), "t": times[i]}
            row |= {"class": str(true[i]), "predicted": str(likeliest[i])}
            yield whose | row | dict(zip(columns, shares, strict=True))


def split_rows(run: RunSamples) -> Iterator[Row]:
    """Yield a row for each sample of each person, with its part.

    Columns: ``person``, ``index``, ``t``, ``class``, ``fold``, ``part``. A sample without a label
    has an empty class.
    """
    classes = run.federation.card.classes
    for client, part in run.parts():
        data = run.federation.clients[client]
        times = [None] * len(part) if data.t is None else data.t.tolist()
        for i, y in enumerate(data.y.tolist()):
            name = classes[y] if y >= 0 else ""
            row = {"index": i, "t": times[i], "class": name}
            row |= {"fold": run.fold, "part": str(part[i])}
            yield {"person": client} | row


def score_rows(
    predicted: Iterable[Predicted], scores: Sequence[tuple[str, Score]]
) -> Iterator[Row]:
    """Yield a row of scores for each person and method."""
    for one in predicted:
        whose: Row = {"person": one.person, "method": one.method, "tested": len(one.y)}
        yield whose | scored(one, scores)


def mean_rows(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each method: each score's mean over people, and over how many.

    People who have no number of a score are not in its mean.
    """
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        of = [row for row in rows if row["method"] == method]
        means: Row = {"method": method, "people": len(of)}
        for name in [key for key in of[0] if key not in ("person", "method", "tested")]:
            values = np.array([row[name] for row in of])
            there = ~np.isnan(values)
            means[name] = float(values[there].mean()) if there.any() else None
            means[f"{name}: people"] = int(there.sum())
        found.append(means)
    return found
