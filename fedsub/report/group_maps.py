"""Maps over rounds: clusters of each class, groups of people, who is with whom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsub.report.frame import Floats, Frame, Grid
from fedsub.report.maps import bare, height, name_rows
from fedsub.report.svg import LOOK, WIDTH, Drawn, drawn
from fedsub_data.inspection.drawing import LACKING, short_name

_ALONE = "#eef1f4"
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
            figure = _by_round(grid, names, "Purples", "clusters")
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
                "group."
            )
            figure = _by_round(grid, grid.columns, "tab20", "")
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
    said = []
    for name, grid in zip(names, grids, strict=True):
        last = shared_clusters(grid)[-1]
        sizes = sorted(np.unique(last[last >= 0], return_counts=True)[1], reverse=True)
        alone = f"{(last == -1).sum()} alone"
        some = f"clusters of {', '.join(map(str, sizes))} people, " if sizes else ""
        said.append(f"{name}: {some}{alone}")
    return (
        f"In round {grids[0].rounds[-1]}: {'; '.join(said)}. Equal colours in a column are one "
        "cluster; light: alone in one; grey: not in this class. Who is where is in tables/."
    )


def _members_by_round(names: Sequence[str], grids: Sequence[Grid]) -> Figure:
    """Return a map for each class, two in a row, people by rounds."""
    people = sorted({person for grid in grids for person in grid.columns})
    with matplotlib.rc_context(LOOK):
        down = math.ceil(len(grids) / 2)
        size = (WIDTH, 0.6 + down * (0.35 + _THIN * height(people)))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(down, 2, squeeze=False, sharex=True, sharey=True)
        tab20 = matplotlib.colormaps["tab20"]
        shades = np.vstack([to_rgba(_ALONE), tab20(np.arange(tab20.N))])
        colours = ListedColormap(shades).with_extremes(bad=LACKING)
        if len(grids) % 2:
            panels[-1, 1].set_visible(False)
            panels[-2 if down > 1 else -1, 1].tick_params(labelbottom=True)
        for axes, name, grid in zip(panels.flat, names, grids, strict=False):
            shared = shared_clusters(grid)
            values = np.full((len(people), len(grid.rounds)), np.nan)
            values[[people.index(one) for one in grid.columns]] = np.where(
                shared < 0, 0, 1 + shared % tab20.N
            ).T
            edges = np.append(np.array(grid.rounds) - 0.5, grid.rounds[-1] + 0.5)
            tops = np.arange(len(people) + 1) - 0.5
            axes.pcolormesh(
                edges, tops, values, cmap=colours, vmin=0, vmax=tab20.N, rasterized=True
            )
            axes.set_ylim(len(people) - 0.5, -0.5)
            axes.set_title(short_name(name, 16), fontsize=8.5)
            name_rows(axes, people)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            bare(axes)
        figure.supxlabel("round", fontsize=9)
    return figure


def _by_round(grid: Grid, rows: Sequence[str], palette: str, label: str) -> Figure:
    """Return a map with rounds across; groups, which only have numbers, take colours in turn."""
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH, 1.15 + height(rows)), layout="constrained")
        axes = figure.add_subplot()
        colours = matplotlib.colormaps[palette].with_extremes(bad=LACKING)
        values = np.where(grid.there, grid.values, np.nan).T
        first, last = grid.rounds[0], grid.rounds[-1]
        limits: dict[str, Any] = {"vmin": 0}
        if not label:
            values, limits = values % 20, {"vmin": 0, "vmax": 19}
        edges = np.append(np.array(grid.rounds) - 0.5, last + 0.5)
        mesh = axes.pcolormesh(
            edges, np.arange(len(rows) + 1) - 0.5, values, cmap=colours, rasterized=True, **limits
        )
        axes.set_xlim(first - 0.5, last + 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        name_rows(axes, rows)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("round")
        bare(axes)
        if label:
            whole = MaxNLocator(5, integer=True)
            bar = figure.colorbar(
                mesh, ax=axes, location="bottom", aspect=40, pad=0.02, ticks=whole
            )
            bar.set_label(label, fontsize=8)
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=7.5, length=2)
    return figure
