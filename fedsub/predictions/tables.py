"""Predictions, parts and scores as rows of tables."""

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
    times ``t`` is empty. Of a target there are ``value`` and ``predicted``, in its unit, and no
    class.
    """
    target = run.federation.card.target
    names = run.federation.card.classes
    classes, columns = np.array(names), [f"{PROBABILITY}{name}" for name in names]
    for one in predicted:
        times = [None] * len(one.y) if one.t is None else one.t.tolist()
        whose = {"person": one.person, "method": one.method, "seed": one.seed, "fold": one.fold}
        whose |= {"round": one.round}
        if target is not None:
            both = zip(one.y.tolist(), one.probabilities[:, 0].tolist(), strict=True)
            for i, (value, predicted) in enumerate(both):
                row = {"index": int(one.index[i]), "t": times[i]}
                yield whose | row | {"value": value, "predicted": predicted}
            continue
        true, likeliest = classes[one.y], classes[one.probabilities.argmax(1)]
        for i, shares in enumerate(one.probabilities.tolist()):
            row = {"index": int(one.index[i]), "t": times[i]}
            row |= {"class": str(true[i]), "predicted": str(likeliest[i])}
            yield whose | row | dict(zip(columns, shares, strict=True))


def split_rows(run: RunSamples) -> Iterator[Row]:
    """Yield a row for each sample of each person, with its part.

    Columns: ``person``, ``index``, ``t``, ``class``, ``fold``, ``part``. A sample without a label
    has an empty class. Of a target ``value`` stands in the place of the class.
    """
    classes = run.federation.card.classes
    for client, part in run.parts():
        data = run.federation.clients[client]
        times = [None] * len(part) if data.t is None else data.t.tolist()
        for i, y in enumerate(data.y.tolist()):
            row = {"index": i, "t": times[i]}
            if run.federation.card.target is None:
                row |= {"class": classes[y] if y >= 0 else ""}
            else:
                row |= {"value": y}
            row |= {"fold": run.fold, "part": str(part[i])}
            yield {"person": client} | row


def score_rows(
    predicted: Iterable[Predicted], scores: Sequence[tuple[str, Score]], label: str = ""
) -> Iterator[Row]:
    """Yield a row of scores for each person and method, which a study calls `label`."""
    for one in predicted:
        whose: Row = {"person": one.person, "method": label or one.method, "tested": len(one.y)}
        yield whose | scored(one, scores)


def mean_rows(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each method: each score's mean over people, and over how many.

    A person who was tested in several runs has the mean over them. People who have no number of a
    score are not in its mean.
    """
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        of = [row for row in rows if row["method"] == method]
        means: Row = {"method": method, "people": len({row["person"] for row in of})}
        for name in [key for key in of[0] if key not in ("person", "method", "tested")]:
            each: dict[str, list[float]] = {}
            for row in of:
                if not np.isnan(row[name]):
                    each.setdefault(row["person"], []).append(row[name])
            values = [np.mean(own) for own in each.values()]
            means[name] = float(np.mean(values)) if values else None
            means[f"{name}: people"] = len(values)
        found.append(means)
    return found
