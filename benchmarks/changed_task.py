"""Write `benchmarks/results/changed-task.csv`: heads tested on another task than they learnt from.

Of WESAD's protocol, stress against what is none: a person's head learns one half of the stress task
and some of the other tasks, and is tested on the other half and on tasks that it never saw. Half a
minute on either side of a cut is in no part. Beside `fedsub-ridge` (own, everybody's, mixed): a
forest of everybody's samples and one of own, averaged; and the share of stress that the person's
training part has, said of each sample.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from script import REAL, put_rows, read_arguments
from sklearn.ensemble import RandomForestClassifier

from fedsub_client.own_heads import own_encoder
from fedsub_core.closed_form.candidates import Shared
from fedsub_core.closed_form.personal import Head, Mixing, personal_head
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import statistics, total
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.sources import load_federation
from fedsub_core.data.standardise import moments, pool, scaling
from fedsub_core.encoders.standardised import seen
from fedsub_core.evaluation import evaluate

#: What is trained beside a half of stress (0: the first), and what is tested beside the other.
CUTS = {
    "baseline; amusement and meditation": (("Baseline",), 0, ("Amusement", "Meditation")),
    "baseline; amusement": (("Baseline",), 1, ("Amusement",)),
    "amusement and meditation; baseline": (("Amusement", "Meditation"), 0, ("Baseline",)),
    "meditation; baseline and amusement": (("Meditation",), 1, ("Baseline", "Amusement")),
}
STRESS, GAP_S = "Stress", 30.0
TINY = ["--clients", "3", "--trees", "5"]
LINES = tuple(CUTS)

Floats = NDArray[np.floating]
Part = tuple[Floats, NDArray[np.int64]]


def cut(
    one: ClientData,
    classes: tuple[str, ...],
    learnt: tuple[str, ...],
    half: int,
    new: tuple[str, ...],
) -> tuple[Part, Part]:
    """Return a person's training and test part: samples, and 1 where they are of stress."""
    assert one.t is not None
    order = np.argsort(one.t, kind="stable")
    x, y, t = one.x[order], one.y[order], one.t[order]
    stress = np.flatnonzero(y == classes.index(STRESS))
    middle = t[stress[len(stress) // 2]]
    first, second = (stress[of] for of in (t[stress] < middle - GAP_S, t[stress] > middle + GAP_S))
    parts = []
    for of_stress, others in (
        ((first, learnt), (second, new)) if not half else ((second, learnt), (first, new))
    ):
        rest = np.flatnonzero(np.isin(y, [classes.index(name) for name in others]))
        labels = np.repeat([0, 1], [len(rest), len(of_stress)])
        parts.append((x[np.concatenate([rest, of_stress])].astype(np.float32), labels))
    return parts[0], parts[1]


def heads(people: list[Part], how: Mixing) -> list[Head]:
    """Return everybody's heads after three rounds."""
    sums = total([statistics(x, y, 2) for x, y in people])
    shared = Shared(Scale.of(sums), sums)
    first = [personal_head(x, y, 2, [shared], how=how).equations for x, y in people]
    pooled = Equations(0.0, 0.0 * first[0].gram, 0.0 * first[0].target, 0.0 * first[0].losses)
    for one in first:
        pooled = pooled + one
    return [personal_head(x, y, 2, [shared], pooled, how) for x, y in people]


def score(logits: Floats, y: NDArray[np.int64]) -> tuple[float, float]:
    """Return macro F1 and loss, nats."""
    found = evaluate(
        torch.from_numpy(logits)[None],
        torch.from_numpy(y)[None],
        torch.ones(1, len(y), dtype=torch.bool),
    )
    return float(found.macro_f1[0]), float(found.loss[0])


def rows(
    people: list[tuple[Part, Part]], trees: int
) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield each row's name, and everybody's scores."""
    scale = scaling(pool([moments(x) for (x, _), _ in people]))
    encoder = own_encoder("auto", 0, people[0][0][0].shape[1:])
    coded = [[(seen(x, scale, encoder), y) for x, y in one] for one in people]
    for kind in ("own", "everybody", "mixed"):
        found = heads([train for train, _ in coded], Mixing(heads=kind))
        yield (
            kind,
            [
                score(x.astype(np.float64) @ head.weight.T + head.bias, y)
                for head, (_, (x, y)) in zip(found, coded, strict=True)
            ],
        )
    said = []
    flat = [[(x.reshape(len(x), -1), y) for x, y in one] for one in people]
    every = RandomForestClassifier(trees, random_state=0).fit(
        *(np.concatenate(parts) for parts in zip(*(train for train, _ in flat), strict=True))
    )
    for train, (x, _) in flat:
        own = RandomForestClassifier(trees, random_state=0).fit(*train)
        said.append((every.predict_proba(x) + own.predict_proba(x)) / 2)
    tested = [y for _, (_, y) in people]
    yield (
        "forests",
        [score(np.log(np.clip(p, 1e-12, 1)), y) for p, y in zip(said, tested, strict=True)],
    )
    rates = [np.bincount(y, minlength=2) / len(y) for (_, y), _ in people]
    yield (
        "base rate",
        [score(np.tile(np.log(r), (len(y), 1)), y) for r, y in zip(rates, tested, strict=True)],
    )


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=Path(REAL, "wesad"),
        clients=(0, "the first ones alone; 0 = all"),
        trees=100,
        csv=Path,
    )
    federation = load_federation(str(arguments.data))
    clients = list(federation.clients.values())[: arguments.clients or None]
    for name, how in CUTS.items():
        people = [cut(one, federation.card.classes, *how) for one in clients]
        line: dict[str, object] = {
            "learnt; tested, beside halves of stress": name,
            "people": len(people),
        }
        for row, scores in rows(people, arguments.trees):
            f1, loss = np.mean(scores, 0)
            line |= {f"{row}: macro F1": f"{f1:.3f}", f"{row}: loss": f"{loss:.3f}"}
        print(*line.values(), sep="  ", flush=True)
        put_rows(arguments.csv, [line], [next(iter(line))])


if __name__ == "__main__":
    main()
