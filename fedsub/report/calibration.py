"""How far probabilities can be believed: a picture and scores of a run's predictions.

They are those of ``predictions.csv``, which ``fedsub predictions`` writes into the run's folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedsub.predictions.files import PREDICTIONS, read_predictions
from fedsub.predictions.scores import BINS, SCORES, ece, reliability
from fedsub.predictions.tables import PROBABILITY, mean_rows, score_rows
from fedsub.predictions.tested import Predicted
from fedsub.report.curves import styles
from fedsub.report.page import Section
from fedsub.report.rows import NONE, Rows
from fedsub.report.svg import LOOK, SOFT, WIDTH, Drawn, drawn
from fedsub_data.inspection.drawing import short_name

EXPLAINED = (
    "Samples of all people are sorted by the probability of the class that is predicted. A line "
    "above the diagonal is right more often than it says, a line below it less often. ECE, the "
    "expected calibration error, is the mean distance from the diagonal. In the table each score "
    "is a mean over people. AUROC and kappa are of those with two classes or more."
)


def calibration(folder: Path) -> list[Section]:
    """Return the section on a run's predictions; none where they were not written."""
    path = folder / PREDICTIONS
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as file:
        if PROBABILITY not in file.readline():  # of a target
            return []
    predicted = read_predictions(path)
    text = (EXPLAINED,)
    return [Section("calibration", "Calibration", text, [_scores(predicted)], [_drawn(predicted)])]


def _scores(predicted: Sequence[Predicted]) -> Rows:
    rows = []
    for row in mean_rows(list(score_rows(predicted, list(SCORES.items())))):
        cells = [NONE if row[name] is None else f"{row[name]:.3f}" for name in SCORES]
        rows.append([row["method"], str(row["people"]), *cells])
    head = ("method", "people", *(name.replace("_", " ") for name in SCORES))
    return Rows("Scores of predictions, means over people", head, rows, (0,))


def _drawn(predicted: Sequence[Predicted]) -> Drawn:
    """Draw accuracy by confidence, a line for each method; the size of a dot is its samples."""
    methods = list(dict.fromkeys(one.method for one in predicted))
    look, words = styles(methods), list[str]()
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=SOFT, linewidth=0.8)
        for name in methods:
            own = [one for one in predicted if one.method == name]
            y = np.concatenate([one.y for one in own])
            shares = np.concatenate([one.probabilities for one in own])
            counts, confidence, accuracy = reliability(y, shares).T
            there, (colour, dashes) = counts > 0, look[name]
            line: Any = {"color": colour, "linewidth": 1.5, "linestyle": dashes}
            axes.plot(confidence[there], accuracy[there], label=short_name(name, 16), **line)
            size = 4 + 60 * counts[there] / counts.sum()
            axes.scatter(confidence[there], accuracy[there], s=size, color=colour)
            words.append(f"{name} {ece(y, shares):.3f}")
        axes.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.02))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    said = f"Accuracy by confidence in {BINS} intervals. ECE over all samples: {', '.join(words)}."
    return drawn("reliability", "Reliability", said, figure)
