"""Maps over rounds: clusters of each class, groups of people, who is with whom, prototypes."""

import math
from collections.abc import Iterator, Sequence

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedsub.report.frame import Floats, Frame, Grid, PrototypePlaces
from fedsub.report.maps import bare, height, name_rows
from fedsub.report.svg import INK, LOOK, WIDTH, Drawn, drawn
from fedsub_data.inspection.drawing import LACKING, short_name

_ALONE = "#eef1f4"
_COLOURS = 20  # of Matplotlib's tab20
_THIN = 0.6  # rows, where there is a map for each class


def group_maps(frame: Frame) -> Iterator[Drawn]:
    """Draw clusters of each class and groups of people over rounds, where a method has them.

    Of several seeds, the first's.
    """
    of = frame.of_seed
    for place, name in enumerate(frame.methods):
        trace = frame.of(name)[0]
        if trace.clusters.rounds:
            grid = trace.clusters
            names = [frame.class_name(int(column)) for column in grid.columns]
            title = f"{name}: clusters of each class by round{of}"
            ends = zip(names, grid.values[-1], strict=True)
            said = "; ".join(f"{one} {end:.0f}" for one, end in ends if np.isfinite(end))
            words = f"Clusters in round {grid.rounds[-1]}: {said}."
            figure = _counts_by_round(grid, names, "clusters")
            yield drawn(f"{frame.key}clusters_{place + 1}", title, words, figure)
        if trace.members:
            names = [frame.class_name(label) for label in trace.members]
            grids = list(trace.members.values())
            title = f"{name}: who is with whom in each class by round{of}"
            yield drawn(
                f"{frame.key}members_{place + 1}",
                title,
                _members_said(names, grids),
                _members_by_round(names, grids),
            )
        grid = trace.people.get("group", Grid.of({}))
        if grid.rounds:
            sizes = sorted(np.unique(grid.values[-1][grid.there[-1]], return_counts=True)[1])
            words = (
                f"In round {grid.rounds[-1]} {len(sizes)} groups, of "
                f"{', '.join(map(str, reversed(sizes)))} people. Equal colours in a round are one "
                f"group; light: alone in one.{_repeated([grid])}"
            )
            figure = _members_by_round([], [grid])
            title = f"{name}: who is with whom by round{of}"
            yield drawn(f"{frame.key}groups_{place + 1}", title, words, figure)


def shared_clusters(grid: Grid) -> Floats:
    """Return in which cluster of two or more people everybody is, [rounds, people].

    -1: alone in one; nan: in none. A cluster keeps its number from one round to the next where its
    first person by name has it there, too; in a round no two have the same.
    """
    found = np.where(grid.there, -1.0, np.nan)
    before: dict[int, int] = {}  # number by place of a cluster's first person
    for row, there, values in zip(found, grid.there, grid.values, strict=True):
        together = [np.flatnonzero(there & (values == one)) for one in np.unique(values[there])]
        firsts = sorted((mine[0], mine) for mine in together if len(mine) > 1)
        kept = {first: before[first] for first, _ in firsts if first in before}
        free = (n for n in range(len(row)) if n not in kept.values())
        before = {first: kept[first] if first in kept else next(free) for first, _ in firsts}
        for first, mine in firsts:
            row[mine] = before[first]
    return found


def _members_said(names: Sequence[str], grids: Sequence[Grid]) -> str:
    said, end = [], max(grid.rounds[-1] for grid in grids)
    for name, grid in zip(names, grids, strict=True):
        last = shared_clusters(grid)[-1] if grid.rounds[-1] == end else np.array([])
        sizes = sorted(np.unique(last[last >= 0], return_counts=True)[1], reverse=True)
        alone = f"{(last == -1).sum()} alone"
        some = f"clusters of {', '.join(map(str, sizes))} people, " if sizes else ""
        said.append(f"{name}: {some}{alone}")
    return (
        f"In round {end}: {'; '.join(said)}. Equal colours in a class and round are one cluster; "
        f"light: alone in one; grey: in none.{_repeated(grids)} Who is where is in tables/."
    )


def _repeated(grids: Sequence[Grid]) -> str:
    """Return a sentence on repeated colours; "" where there are colours enough."""
    most = max(np.nanmax(shared_clusters(grid)) for grid in grids)
    return f" Of more than {_COLOURS} some have the same colour." if most >= _COLOURS else ""


def _members_by_round(names: Sequence[str], grids: Sequence[Grid]) -> Figure:
    """Return a map for each grid, two in a row: people by rounds that say so, all equally wide."""
    people = sorted({person for grid in grids for person in grid.columns})
    rounds = sorted({round for grid in grids for round in grid.rounds})
    across = min(2, len(grids))
    down = math.ceil(len(grids) / across)
    high = height(people) * (_THIN if names else 1) + (0.35 if names else 0)
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH, 0.6 + down * high), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        shades = np.vstack([to_rgba(_ALONE), matplotlib.colormaps["tab20"](np.arange(_COLOURS))])
        colours = ListedColormap(shades).with_extremes(bad=LACKING)
        if len(grids) < panels.size:
            panels[-1, 1].set_visible(False)
            panels[-2 if down > 1 else -1, 1].tick_params(labelbottom=True)
        for axes, grid in zip(panels.flat, grids, strict=False):
            shared = shared_clusters(grid)
            values = np.full((len(people), len(rounds)), np.nan)
            places = [*map(people.index, grid.columns)], [*map(rounds.index, grid.rounds)]
            values[np.ix_(*places)] = np.where(shared < 0, 0, 1 + shared % _COLOURS).T
            edges = (np.arange(n + 1) - 0.5 for n in (len(rounds), len(people)))
            axes.pcolormesh(*edges, values, cmap=colours, vmin=0, vmax=_COLOURS, rasterized=True)
            axes.set_ylim(len(people) - 0.5, -0.5)
            name_rows(axes, people)
            marked = np.unique(np.linspace(0, len(rounds) - 1, 6 // across + 1).astype(int))
            axes.set_xticks(marked, [rounds[i] for i in marked])
            bare(axes)
        for axes, name in zip(panels.flat, names, strict=False):
            axes.set_title(short_name(name, 16), fontsize=8.5)
        figure.supxlabel("round", fontsize=9)
    return figure


def _counts_by_round(grid: Grid, rows: Sequence[str], label: str) -> Figure:
    """Return a map of counts, rounds across."""
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH, 1.15 + height(rows)), layout="constrained")
        axes = figure.add_subplot()
        colours = matplotlib.colormaps["Purples"].with_extremes(bad=LACKING)
        values = np.where(grid.there, grid.values, np.nan).T
        first, last = grid.rounds[0], grid.rounds[-1]
        edges = np.append(np.array(grid.rounds) - 0.5, last + 0.5)
        mesh = axes.pcolormesh(
            edges, np.arange(len(rows) + 1) - 0.5, values, cmap=colours, rasterized=True, vmin=0
        )
        axes.set_xlim(first - 0.5, last + 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        name_rows(axes, rows)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("round")
        bare(axes)
        whole = MaxNLocator(5, integer=True)
        bar = figure.colorbar(mesh, ax=axes, location="bottom", aspect=40, pad=0.02, ticks=whole)
        bar.set_label(label, fontsize=8)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7.5, length=2)
    return figure


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
        said = "; ".join(_prototypes_said(round, one) for round, one in found.items())
        figure = _prototypes_by_round(frame, list(found.items()))
        yield drawn(f"{frame.key}prototypes_{place + 1}", title, f"{said}.", figure)


def _prototypes_said(round: int, found: PrototypePlaces) -> str:
    people = int((~found.everybodys).sum())
    ratio = "" if math.isnan(found.ratio) else f", ratio {found.ratio:.2f}"
    return f"round {round}: {people} prototypes of {found.everybodys.sum()} classes{ratio}"


def _prototypes_by_round(frame: Frame, found: Sequence[tuple[int, PrototypePlaces]]) -> Figure:
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
