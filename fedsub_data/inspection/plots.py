"""Four figures of an inspected federation, as PNG; legible from 2 to about 120 clients.

One hue stands for shares, red and blue for similarity, a colour each for classes.
"""

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from fedsub_data.inspection.drawing import (
    COLOURS,
    INK,
    LACKING,
    ROW_INCHES,
    new_figure,
    png,
    short_name,
)
from fedsub_data.inspection.inspection import Inspection

_WIDEST_INCHES = 12.0


def figures(inspection: Inspection) -> dict[str, bytes]:
    """Return the four figures as PNG bytes, by file name; equal for equal inspections."""
    drawn = {
        "class_shares.png": class_shares(inspection),
        "samples_per_client.png": samples_per_client(inspection),
        "prototype_similarity.png": prototype_similarity(inspection),
        "hopkins.png": hopkins_bars(inspection),
    }
    return {name: png(figure) for name, figure in drawn.items()}


def class_shares(inspection: Inspection) -> Figure:
    """Return a heat map of each class's share in each client's samples, classes x clients."""
    clients, classes = inspection.counts.shape
    width = _client_width(clients)
    figure = new_figure(width, max(2.6, 1.4 + 0.32 * classes))
    axes = figure.add_subplot()
    shares = np.where(inspection.counts > 0, inspection.shares, np.nan).T
    colours = matplotlib.colormaps["Blues"].with_extremes(bad=LACKING)
    image = axes.imshow(shares, cmap=colours, vmin=0, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(classes), [short_name(name) for name in inspection.card.classes])
    _clients_below(axes, inspection.clients, width)
    if clients <= 20:
        dark = 0.65 * float(np.nanmax(shares))
        for (row, column), share in np.ndenumerate(shares):
            ink = "white" if share > dark else "black"
            text = "none" if math.isnan(share) else "<1%" if share < 0.005 else f"{share:.0%}"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=ink)
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.05, format=_percent())
    _describe(bar, "share of samples")
    lacking = "; grey: the client lacks the class" if np.isnan(shares).any() else ""
    axes.set_title(f"Classes of each client{lacking}", loc="left")
    return figure


def samples_per_client(inspection: Inspection) -> Figure:
    """Return a bar of samples per client, stacked by class where six colours are enough."""
    clients, classes = inspection.counts.shape
    width = _client_width(clients)
    figure = new_figure(width, 3.6)
    axes = figure.add_subplot()
    place = np.arange(clients)
    if classes <= len(COLOURS):
        floor = np.zeros(clients)
        for label, name in enumerate(inspection.card.classes):
            height = inspection.counts[:, label]
            colour = COLOURS[label]
            axes.bar(place, height, 0.85, floor, color=colour, label=short_name(name))
            floor += height
        # The legend names the classes in the order in which they lie on each other.
        figure.legend(loc="outside right upper", reverse=True, frameon=False)
    else:
        axes.bar(place, inspection.counts.sum(axis=1), 0.85, color=COLOURS[0])
    axes.set_xlim(-0.6, clients - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_ylabel("samples")
    _clients_below(axes, inspection.clients, width)
    axes.set_title("Samples of each client", loc="left")
    return figure


def prototype_similarity(inspection: Inspection) -> Figure:
    """Return a heat map per class of the cosine between people's prototypes, people x people.

    People stand in one order in all classes: neighbours are alike on the mean of the classes.
    """
    classes, people, _ = inspection.similarity.shape
    side = float(np.clip(1.6 + 0.04 * people, 2.0, 3.4))
    rows = math.ceil(classes / int(_WIDEST_INCHES / (side + 0.35)))
    columns = math.ceil(classes / rows)
    figure = new_figure(columns * (side + 0.35) + 0.9, rows * (side + 0.55) + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    colours = matplotlib.colormaps["RdBu_r"].with_extremes(bad=LACKING)
    order = _alike_together(inspection)
    step = max(1, math.ceil(people * ROW_INCHES / (side * 0.75)))
    shown = range(0, people, step)
    names = [short_name(inspection.clients[order[place]], 8) for place in shown]
    for label, name in enumerate(inspection.card.classes):
        axes, mean = panels[label], inspection.mean_similarity[label]
        matrix = inspection.similarity[label][np.ix_(order, order)]
        image = axes.imshow(matrix, cmap=colours, vmin=-1, vmax=1, interpolation="nearest")
        axes.set_xticks(shown, names, rotation=90, fontsize=6.5)
        axes.set_yticks(shown, names, fontsize=6.5)
        text = "fewer than two people" if mean is None else f"mean {mean:+.2f}"
        axes.set_title(f"{short_name(name)}\n{text}", fontsize=9)
    for axes in panels[classes:]:
        axes.set_axis_off()
    bar = figure.colorbar(image, ax=list(panels), shrink=0.8, aspect=30)
    _describe(bar, "cosine of two people's prototypes")
    lacking = "; grey: no such pair" if np.isnan(inspection.similarity).any() else ""
    figure.suptitle(f"How alike people are in each class{lacking}", fontsize=11)
    return figure


def hopkins_bars(inspection: Inspection) -> Figure:
    """Return a bar of the Hopkins statistic per class, with a line at 0.5, as random points."""
    classes = inspection.card.classes
    figure = new_figure(6.5, 1.4 + 0.34 * len(classes))
    axes = figure.add_subplot()
    place = np.arange(len(classes))
    values = [value or 0.0 for value in inspection.hopkins]
    axes.barh(place, values, 0.7, color=COLOURS[0])
    for row, value in enumerate(inspection.hopkins):
        # In a column of their own, where neither a bar nor the line at 0.5 crosses them.
        axes.text(1.03, row, "none" if value is None else f"{value:.2f}", va="center", color=INK)
    axes.axvline(0.5, color=INK, linewidth=1.2, linestyle="--")
    axes.set_xlim(0, 1.13)
    axes.set_ylim(len(classes) - 0.4, -0.6)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5\nrandom", "0.75", "1\nclustered"])
    axes.set_yticks(place, [short_name(name) for name in classes])
    lacking = "; none: too few samples" if None in inspection.hopkins else ""
    axes.set_title(f"Hopkins statistic of each class{lacking}", loc="left")
    return figure


def _client_width(clients: int) -> float:
    """Return the inches of a figure that has its clients side by side."""
    return float(np.clip(2.6 + 0.34 * clients, 5.5, _WIDEST_INCHES))


def _clients_below(axes: Axes, clients: Sequence[str], width: float) -> None:
    """Name the clients below the axes: as many as have room, upright where they are long."""
    names = [short_name(client, 14) for client in clients]
    room = width * 0.72 / len(names)
    upright = max(map(len, names)) * 0.075 > room
    step = max(1, math.ceil(ROW_INCHES / room))
    rotation = 90 if upright else 0
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=rotation, fontsize=7.5)
    more = f", one in {step} named" if step > 1 else ""
    axes.set_xlabel(f"{len(names)} clients{more}")


def _alike_together(inspection: Inspection) -> NDArray[np.int64]:
    """Return an order of the people: the leaves of average linkage on their mean similarity."""
    known = np.isfinite(inspection.similarity)
    total = np.where(known, inspection.similarity, 0).sum(axis=0)
    distance = 1 - total / np.maximum(known.sum(axis=0), 1)
    np.fill_diagonal(distance, 0)
    if len(distance) < 2:
        return np.arange(len(distance))
    order: NDArray[np.int64] = leaves_list(linkage(squareform(distance, checks=False), "average"))
    return order


def _describe(bar: Colorbar, text: str) -> None:
    bar.set_label(text, fontsize=9)
    bar.ax.tick_params(labelsize=8)


def _percent() -> FuncFormatter:
    return FuncFormatter(lambda value, _: f"{value:.0%}")
