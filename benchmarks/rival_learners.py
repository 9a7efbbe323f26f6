"""Learners outside the product: trees, neighbours, and kernels with thresholds of the data."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rival_heads import Features, Ridge, signs, temperature
from rival_parts import Floats, Labels, Person, Table
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
)

#: Share of a probability that is spread over all classes: none is 0.
SPREAD = 0.01
TREES, STEPS = 200, 100
#: Of boosted trees: training samples of a leaf at least and leaves at most, where samples are many;
#: features that a division is chosen from.
LEAF, LEAVES, LOOKED_AT = 20, 31, 30

#: Probabilities [n, classes] of samples.
Says = Callable[[NDArray[np.float32]], Floats]
#: What learns of samples x, y: `classes`, seed.
Learn = Callable[[NDArray[np.float32], Labels, int, int], Says]
#: Of each person of a table, log probabilities or scores of the tested samples.
Logits = list[Floats]


def pooled_and_own(
    name: str, learn: Learn, people: Sequence[Person], of: Table
) -> dict[str, Logits]:
    """Return predictions of a model of everybody's samples, of one's own, and their mean."""
    x, y = (np.concatenate([getattr(one, part) for one in people]) for part in "xy")
    everybody = learn(x, y, of.classes, of.seed)
    pooled = [everybody(one.tested) for one in people]
    own = [learn(one.x, one.y, of.classes, of.seed)(one.tested) for one in people]
    both = [(a + b) / 2 for a, b in zip(pooled, own, strict=True)]
    ways = {"pooled": pooled, "own": own, "pooled and own": both}
    return {f"{name}, {way}": [logs(one) for one in said] for way, said in ways.items()}


def logs(probabilities: Floats) -> Floats:
    """Return log probabilities; a little of each is spread over all classes."""
    spread = (1 - SPREAD) * probabilities + SPREAD / probabilities.shape[1]
    found: Floats = np.log(spread)
    return found


def _trees(model: Any, x: NDArray[np.float32], y: Labels, classes: int) -> Says:
    labels = np.unique(y)
    if len(labels) > 1:
        model.fit(x, y)

    def says(tested: NDArray[np.float32]) -> Floats:
        found = np.zeros((len(tested), classes))
        found[:, labels] = model.predict_proba(tested) if len(labels) > 1 else 1.0
        return found

    return says


def extra_trees(x: NDArray[np.float32], y: Labels, classes: int, seed: int) -> Says:
    """Return extremely randomised trees (Geurts et al. 2006)."""
    return _trees(ExtraTreesClassifier(TREES, random_state=seed), x, y, classes)


def boosted(x: NDArray[np.float32], y: Labels, classes: int, seed: int) -> Says:
    """Return gradient boosted trees of histograms; they are smaller where samples are few."""
    model = HistGradientBoostingClassifier(
        max_iter=STEPS, early_stopping=False, random_state=seed,
        min_samples_leaf=max(2, min(LEAF, len(y) // 20)),
        max_leaf_nodes=max(4, min(LEAVES, len(y) // 8)),
        max_features=min(1.0, LOOKED_AT / x.shape[1]),
    )  # fmt: skip
    return _trees(model, x, y, classes)


def nearest(x: NDArray[np.float32], y: Labels, classes: int, seed: int) -> Says:
    """Return the label of the nearest sample, as sure as it is right of samples left out."""
    scale = Features.of(x)
    rows = scale(x)
    found = _nearest(rows, rows, True) if len(y) > 1 else np.zeros(1, np.intp)
    # As if one more was right and one wrong.
    wrong = min((float((y[found] != y).sum()) + 1) / (len(y) + 2), 0.5)

    def says(tested: NDArray[np.float32]) -> Floats:
        probabilities = np.full((len(tested), classes), wrong / (classes - 1))
        labels = y[_nearest(scale(tested), rows, False)]
        probabilities[np.arange(len(tested)), labels] = 1 - wrong
        return probabilities

    return says


def _nearest(of: Floats, rows: Floats, but_itself: bool) -> NDArray[np.intp]:
    """Return the number of the nearest of `rows` to each row `of`."""
    lengths, found = (rows**2).sum(1), []
    for start in range(0, len(of), 1024):
        some = of[start : start + 1024]
        distances = lengths - 2 * some @ rows.T
        if but_itself:
            distances[np.arange(len(some)), start + np.arange(len(some))] = np.inf
        found.append(distances.argmin(1))
    return np.concatenate(found)


def ridge(x: NDArray[np.float32], y: Labels, classes: int, seed: int) -> Says:
    """Return a ridge head on features; penalty and temperature by leave-one-out."""
    scale = Features.of(x)
    head = Ridge.of(scale(x), signs(y, classes), y)
    factor = temperature(head.left_out, y)

    def says(tested: NDArray[np.float32]) -> Floats:
        return softmax(factor * head(scale(tested)))

    return says


def softmax(scores: Floats) -> Floats:
    """Return probabilities of scores [n, classes]."""
    raised = np.exp(scores - scores.max(1, keepdims=True))
    probabilities: Floats = raised / raised.sum(1, keepdims=True)
    return probabilities


def minirocket(x: NDArray[np.float32], y: Labels, classes: int, seed: int) -> Says:
    """Return MiniRocket (Dempster et al. 2021) of aeon with a ridge head."""
    from aeon.transformations.collection.convolution_based import MiniRocket

    # Its thresholds are of windows drawn at random; one alone it refuses.
    transform = MiniRocket(random_state=seed)
    transform.fit(x if len(x) > 1 else np.repeat(x, 2, 0))

    def features(windows: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(transform.transform(windows), np.float32)

    says = ridge(features(x), y, classes, seed)
    return lambda tested: says(features(tested))


def hydra_features(table: Table) -> list[Person]:
    """Return people with counts of Hydra's kernels (Dempster et al. 2023), their square roots."""
    from aeon.transformations.collection.convolution_based import HydraTransformer

    # Its kernels are of the seed and the windows' shape alone: one draw serves everybody.
    transform = HydraTransformer(random_state=table.seed)
    transform.fit(table.scaled[0].x)

    def features(windows: NDArray[np.float32]) -> NDArray[np.float32]:
        counts = np.asarray(transform.transform(windows), np.float32)
        return np.sqrt(np.maximum(counts, 0))

    return [
        Person(one.name, features(one.x), one.y, features(one.tested), one.right)
        for one in table.scaled
    ]
