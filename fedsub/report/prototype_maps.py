"""Maps of prototypes, early and late: people's, and the mean of each class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedsub.report.frame import Frame, PrototypePlaces
from fedsub.report.svg import INK, LOOK, WIDTH, Drawn, drawn
from fedsub_data.inspection.drawing import short_name

PROTOTYPES_EXPLAINED = (
    "A point is a person's prototype of a class, in its class's colour; a star is the mean of a "
    "class. Each map has axes of its own: the two greatest principal components of that round. "
    "Where the ratio is below 1, people's prototypes lie nearer to their own class's mean than to "
    "other classes'."
)
_FEW, _NAMED = 10, 12  # classes of which no two colours are alike; classes in a legend


def prototype_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw the first and the last round's prototypes of each method that has such.

    Of several seeds, the first's.
    """
    for place, name in enumerate(frame.methods):
        found = frame.of(name)[0].prototypes
        if not found:
            continue
        title = f"{name}: prototypes, early and late{frame.of_seed}"
        said = "; ".join(_said(round, one) for round, one in found.items())
        figure = _figure(frame, list(found.items()))
        yield drawn(f"{frame.key}prototypes_{place + 1}", title, f"{said}.", figure)


def _said(round: int, found: PrototypePlaces) -> str:
    people = int((~found.everybodys).sum())
    ratio = "" if math.isnan(found.ratio) else f", ratio {found.ratio:.2f}"
    return f"round {round}: {people} prototypes of {found.everybodys.sum()} classes{ratio}"


def _figure(frame: Frame, found: Sequence[tuple[int, PrototypePlaces]]) -> Figure:
    labels = sorted({int(label) for _, one in found for label in one.labels})
    told = matplotlib.colormaps["tab10" if len(labels) <= _FEW else "tab20"]
    colours = {label: told(i % told.N) for i, label in enumerate(labels)}
    with matplotlib.rc_context(LOOK):
        tall = 0.55 * WIDTH + 0.2 * math.ceil(min(len(labels), _NAMED) / 3)
        figure = Figure(figsize=(WIDTH, tall), layout="constrained")
        panels = figure.subplots(1, len(found), squeeze=False)[0]
        for axes, (round, one) in zip(panels, found, strict=True):
            for label in labels:
                mine = one.labels == label
                own, mean = one.places[mine & ~one.everybodys], one.places[mine & one.everybodys]
                axes.scatter(*own.T, s=9, color=[colours[label]], alpha=0.7, linewidths=0)
                axes.scatter(*mean.T, s=80, color=[colours[label]], marker="*", edgecolors=INK)
            axes.set_title(f"round {round}", fontsize=9.5)
            axes.set(xticks=[], yticks=[])
            axes.set_aspect("equal", adjustable="datalim")
        if len(labels) <= _NAMED:
            handles = [
                Line2D([], [], marker="o", linestyle="", color=colours[label]) for label in labels
            ]
            names = [short_name(frame.class_name(label)) for label in labels]
            figure.legend(
                handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5
            )
    return figure
