"""What people reach whose devices hold different shares of the model: boxes and histograms."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedsub.report.frame import Frame, Grid
from fedsub.report.svg import INK, LOOK, SOFT, WIDTH, Drawn, drawn
from fedsub_core.metric_names import CAPACITY
from fedsub_data.inspection.drawing import COLOURS, short_name

#: Macro F1 by method and by share, the greatest first: a number a person, each the mean over seeds.
Reached = Mapping[str, Mapping[float, Sequence[float]]]
CAPACITIES_EXPLAINED = (
    "People by the share of the model that their devices hold. A box holds the middle half of "
    "them, the stroke in it is the median, whiskers reach to the last person within one and a half "
    "boxes, points are people beyond. Histograms count people."
)
_BINS = np.linspace(0, 1, 11)
_BESIDE = 3  # histograms in a row


def capacity_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw people by capacity, as boxes and as histograms, where devices differ in it."""
    found = reached(frame)
    shares = sorted({share for of in found.values() for share in of}, reverse=True)
    if len(shares) < 2:
        return
    title = "Macro F1 of people by capacity"
    yield drawn(f"{frame.key}capacities", title, _said(found, _spread), _boxes(found, shares))
    title = "How many people reach which macro F1, by capacity"
    figure = _histograms(found, shares)
    yield drawn(f"{frame.key}capacities_people", title, _said(found, _low), figure)


def reached(frame: Frame) -> Reached:
    """Return the macro F1 of the people of each capacity in the last evaluated round, by method.

    Where a person's capacity differs between seeds, it counts in each of them.
    """
    found: dict[str, dict[float, list[float]]] = {}
    for name in frame.methods:
        each: dict[tuple[float, str], list[float]] = {}
        for trace in frame.of(name):
            scores = trace.people["macro_f1"]
            held = trace.people.get(CAPACITY, Grid.of({}))
            last = scores.rounds[-1] if scores.rounds else -1
            shares = held.at(last)
            for person, score in scores.at(last).items():
                if person in shares and math.isfinite(score):
                    each.setdefault((shares[person], person), []).append(score)
        if each:
            mine = found[name] = {}
            for (share, _), values in sorted(each.items(), key=lambda one: (-one[0][0], one[0][1])):
                mine.setdefault(share, []).append(float(np.mean(values)))
    return found


def _boxes(found: Reached, shares: Sequence[float]) -> Figure:
    colours = _colours(shares)
    with matplotlib.rc_context(LOOK):
        tall = 0.9 + len(found) * (0.16 * len(shares) + 0.12)
        figure = Figure(figsize=(WIDTH, tall), layout="constrained")
        axes = figure.add_subplot()
        step = 1 / (len(shares) + 1)
        for row, of in enumerate(found.values()):
            for place, share in enumerate(shares):
                if share not in of:
                    continue
                axes.boxplot(
                    [of[share]],
                    positions=[row + (place - (len(shares) - 1) / 2) * step],
                    widths=0.8 * step,
                    orientation="horizontal",
                    patch_artist=True,
                    boxprops={"facecolor": colours[share], "edgecolor": INK, "linewidth": 0.6},
                    medianprops={"color": INK, "linewidth": 1.4},
                    whiskerprops={"color": SOFT, "linewidth": 0.8},
                    capprops={"color": SOFT, "linewidth": 0.8},
                    flierprops={"marker": "o", "markersize": 2.5, "markeredgecolor": SOFT},
                    manage_ticks=False,
                )
        axes.set_yticks(range(len(found)), [short_name(name, 16) for name in found])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("macro F1")
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        _legend(figure, colours)
    return figure


def _histograms(found: Reached, shares: Sequence[float]) -> Figure:
    colours = _colours(shares)
    with matplotlib.rc_context(LOOK):
        down = math.ceil(len(found) / _BESIDE)
        figure = Figure(figsize=(WIDTH, 0.8 + 1.15 * down), layout="constrained")
        across = min(_BESIDE, len(found))
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        panels = list(grid.flat)
        for place, (axes, (name, of)) in enumerate(zip(panels, found.items(), strict=False)):
            there = [share for share in shares if share in of]
            axes.hist(
                [of[share] for share in there],
                bins=_BINS.tolist(),
                stacked=True,
                color=[colours[share] for share in there],
                linewidth=0,
            )
            axes.set_title(short_name(name, 16), fontsize=8)
            axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=7)
            axes.tick_params(axis="y", labelsize=7)
            if place + across >= len(found):  # there is none below
                axes.tick_params(axis="x", labelbottom=True)
                axes.set_xlabel("macro F1", fontsize=8)
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        figure.supylabel("people", fontsize=8, color=SOFT)
        _legend(figure, colours)
    return figure


def _colours(shares: Sequence[float]) -> dict[float, str]:
    return {share: COLOURS[place % len(COLOURS)] for place, share in enumerate(shares)}


def _legend(figure: Figure, colours: Mapping[float, str]) -> None:
    keys = [Patch(facecolor=colour, label=f"{share:g}") for share, colour in colours.items()]
    figure.legend(
        handles=keys, loc="outside lower center", ncols=6, frameon=False, fontsize=8,
        title="capacity", title_fontsize=8,
    )  # fmt: skip


def _said(found: Reached, words: Callable[[Sequence[float]], str]) -> str:
    """Return a figure in words, `words` of the people of each method and capacity."""
    each = (
        f"{name}: " + ", ".join(f"{share:g} {words(values)}" for share, values in of.items())
        for name, of in found.items()
    )
    return f"{'; '.join(each)}."


def _spread(values: Sequence[float]) -> str:
    return f"median {np.median(values):.3f}, from {min(values):.3f} to {max(values):.3f}"


def _low(values: Sequence[float]) -> str:
    return f"{sum(value < 0.5 for value in values)} of {len(values)} people below 0.5"
