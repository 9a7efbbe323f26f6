"""Scores of predictions that F1 does not have: by name, or a function of one's own."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsub.predictions.tested import Predicted
from fedsub_core.errors import ConfigError, cut
from fedsub_core.models.builders import builder_at
from fedsub_core.models.names import is_place

Labels = NDArray[np.int64]
Probabilities = NDArray[np.float32]
#: A person's score of true classes [n] and probabilities [n, classes].
Score = Callable[[Labels, Probabilities], float]

#: Equal intervals of confidence (Guo et al. 2017, section 2).
BINS = 15
TAKES = "(true classes [n], probabilities [n, classes])"


def auroc(y: Labels, probabilities: Probabilities) -> float:
    """Return the mean area under the ROC curve of each class against the rest.

    Classes that all samples have, or none, have no curve and do not count; nan where no class
    has one.
    """
    from sklearn.metrics import roc_auc_score

    some = [c for c in range(probabilities.shape[1]) if 0 < np.count_nonzero(y == c) < len(y)]
    areas = [roc_auc_score(y == c, probabilities[:, c]) for c in some]
    return float(np.mean(areas)) if areas else math.nan


def balanced_accuracy(y: Labels, probabilities: Probabilities) -> float:
    """Return the mean share of each tested class's samples that are right."""
    right = probabilities.argmax(1) == y
    return float(np.mean([right[y == c].mean() for c in np.unique(y)]))


def kappa(y: Labels, probabilities: Probabilities) -> float:
    """Return Cohen's kappa of true and predicted classes; nan where both are one class."""
    from sklearn.metrics import cohen_kappa_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one class alone: 0 / 0, which is nan
        return float(cohen_kappa_score(y, probabilities.argmax(1)))


def reliability(y: Labels, probabilities: Probabilities) -> NDArray[np.float64]:
    """Return, by interval of confidence, samples, mean confidence and accuracy: [BINS, 3].

    Confidence is the greatest probability of a sample. Empty intervals are nan but for their count.
    """
    confidence, right = probabilities.max(1), probabilities.argmax(1) == y
    place = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    sums = [np.bincount(place, weights, BINS) for weights in (confidence, right)]
    with np.errstate(invalid="ignore"):
        return np.stack([counts.astype(np.float64), *(one / counts for one in sums)], 1)


def ece(y: Labels, probabilities: Probabilities) -> float:
    """Return the expected calibration error, in [0, 1] (Guo et al. 2017, equation 3)."""
    counts, confidence, accuracy = reliability(y, probabilities).T
    return float(np.nansum(counts * np.abs(confidence - accuracy)) / len(y))


def brier(y: Labels, probabilities: Probabilities) -> float:
    """Return the Brier score over all classes, in [0, 2] (Brier 1950)."""
    return float(np.square(probabilities - np.eye(probabilities.shape[1])[y]).sum(1).mean())


SCORES: dict[str, Score] = {
    "auroc": auroc,
    "balanced_accuracy": balanced_accuracy,
    "kappa": kappa,
    "ece": ece,
    "brier": brier,
}


def mae(y: Labels, values: Probabilities) -> float:
    """Return the mean absolute error of predicted values [n, 1]."""
    return float(np.abs(values[:, 0] - y).mean())


def rmse(y: Labels, values: Probabilities) -> float:
    """Return the root mean squared error of predicted values [n, 1]."""
    return float(np.sqrt(np.square(values[:, 0] - y).mean()))


def r2(y: Labels, values: Probabilities) -> float:
    """Return the share of the variance that is predicted; nan where all values are the same."""
    if y.min() == y.max():  # their mean may differ from them in its last digits
        return math.nan
    return float(1 - np.square(values[:, 0] - y).sum() / np.square(y - y.mean()).sum())


#: Of a target.
ERRORS: dict[str, Score] = {"mae": mae, "rmse": rmse, "r2": r2}


def scores_named(names: Sequence[str], regression: bool) -> list[tuple[str, Score]]:
    """Return scores' columns and functions, by default all; raises as :func:`score_named`."""
    known = ERRORS if regression else SCORES
    return [score_named(name, known) for name in names or known]


def score_named(name: str, scores: Mapping[str, Score] = SCORES) -> tuple[str, Score]:
    """Return a score's column and function: one of `scores`, or ``my.py:function``.

    Raises ConfigError if there is none of that name, or no such function.
    """
    if is_place(name):
        return name.rpartition(":")[2], builder_at(name, "metric", TAKES)
    if name not in scores:
        known = ", ".join(scores)
        raise ConfigError(f"metric: got {name!r}, expected one of {known}, or my.py:function")
    return name, scores[name]


def scored(one: Predicted, scores: Sequence[tuple[str, Score]]) -> dict[str, float]:
    """Return a person's scores by column.

    Raises ConfigError if a function fails, or returns no number.
    """
    found = {}
    for name, score in scores:
        try:
            found[name] = float(score(one.y.copy(), one.probabilities.copy()))
        except Exception as error:  # whatever somebody's function raises
            raise ConfigError(
                f"metric {name!r}: client {one.person!r}, {one.method}: got "
                f"{type(error).__name__}: {cut(error)}; expected a number of {TAKES}"
            ) from error
    return found
