"""Curves by round, and the strip of everybody's gain over the twin."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsub.report.attendance import Attendance
from fedsub.report.comparing import band, gains, twin
from fedsub.report.frame import Floats, Frame, Grid
from fedsub.report.svg import INK, LOOK, SOFT, WIDTH, Drawn, drawn
from fedsub_data.inspection.drawing import COLOURS, short_name
from fedsub_server.twins import LOCAL

_DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.6, 1.2, 1.6)))
#: More bands than these cannot be told apart: then only the last round has intervals.
_MOST_BANDS = 4
#: Colour and dashes.
Style = tuple[str, object]
_TITLES = {
    "macro_f1": "Macro F1 by round",
    "mae": "Mean absolute error by round, in the target's unit",
    "r2": "Share of the target's variance that is predicted (R2), by round",
    "loss of macro_f1": "Loss by round, nats",
    "loss of mae": "Loss by round, mean squared error of places in the target's range",
}


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Return colour and dashes by method; `local`, the yardstick, is ink in dots."""
    found: dict[str, Style] = {}
    for name in methods:
        place = len(found) - (LOCAL in found)
        dashes = _DASHES[place // len(COLOURS) % len(_DASHES)]
        mine: Style = (COLOURS[place % len(COLOURS)], dashes)
        found[name] = (INK, _DASHES[2]) if name == LOCAL else mine
    return found


def strip_explained(frame: Frame) -> str:
    """Return in words what stands in the strip of gains."""
    return (
        f"Each dot is a person; hollow ones are worse off than with {twin(frame)}. The vertical "
        "line is the mean."
    )


def curves_explained(frame: Frame, printed: bool = False) -> str:
    """Return in words what stands in curves; `printed`: with numbers that a paper prints."""
    theirs = " Thin lines that end in a triangle are what the paper prints." if printed else ""
    few = ""
    if _absences(frame):
        few = (
            " Hollow points off the line are rounds in which fewer than half of the people were "
            "tested: what they are above or below others is no rise and no fall. Below stands how "
            "many people each mean is of."
        )
    return (
        "Lines are means; bands, or with many methods the bars at the right, are 95 % intervals "
        f"over {frame.unit}, of {frame.fewest} or more. A line has a gap where a person's model "
        f"diverged, as its numbers are then not finite.{few}{theirs}"
    )


def _absences(frame: Frame) -> dict[str, Attendance]:
    """Return the attendance, by method, where that differs from round to round."""
    if len(frame.seeds) > 1:  # there each point is a mean over runs
        return {}
    found = {name: Attendance.of(frame.of(name)[0]) for name in frame.methods}
    return {} if all(one.complete for one in found.values()) else found


def metrics_by_round(frame: Frame) -> list[str]:
    """Return the metrics that have a curve."""
    return [name for name in frame.scores if name != "accuracy"]


def curves(frame: Frame, metric: str, printed: Mapping[str, float] | None = None) -> Drawn | None:
    """Draw a metric's mean by round with its 95 % band; None where no round was evaluated.

    `printed` are end points that a paper prints, by method: thin lines that end in a triangle.
    """
    grids = {name: frame.units(name, metric) for name in frame.methods}
    grids = {name: grid for name, grid in grids.items() if np.isfinite(grid.means).any()}
    if not grids:
        return None
    there, look = _absences(frame), styles(frame.methods)
    with matplotlib.rc_context(LOOK):
        tall = 3.1 + 0.17 * (len(grids) // 3) + 0.8 * bool(there)
        figure = Figure(figsize=(WIDTH, tall), layout="constrained")
        axes, below = figure.add_subplot(), None
        if there:
            figure.clear()
            axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
            _count_people(below, grids, there, look)
        last = max(grid.rounds[-1] for grid in grids.values())
        for place, (name, grid) in enumerate(grids.items()):
            colour = look[name][0]
            _draw_line(axes, name, grid, there.get(name), look[name])
            low, high = band(grid, frame.fewest)
            if len(grids) <= _MOST_BANDS and len(grid.rounds) > 1:
                axes.fill_between(grid.rounds, low, high, color=colour, alpha=0.14, linewidth=0)
            elif np.isfinite(low[-1]):
                beside = last + max(last, 4) * 0.02 * (place + 1)
                axes.plot([beside, beside], [low[-1], high[-1]], color=colour, linewidth=1.4)
        ends = {name: end for name, end in (printed or {}).items() if name in grids}
        for name, end in ends.items():
            axes.plot([1, last], [end, end], color=look[name][0], linewidth=0.7, alpha=0.7)
            axes.plot([last], [end], color=look[name][0], marker="<", markersize=5)
        means = [grid.means for grid in grids.values()]
        _scale(axes, metric, [*means, np.array(list(ends.values()))])
        # None under the bars at the right, where there are no rounds.
        ticks = MaxNLocator(6, integer=True).tick_values(1, max(last, 2))
        axes.set_xticks([tick for tick in ticks if 1 <= tick <= last])
        (axes if below is None else below).set_xlabel("round")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    said = _said(frame, metric)
    if ends:
        each = ", ".join(f"{name} {end:.2f}" for name, end in ends.items())
        said += f" Thin lines that end in a triangle are what the paper prints: {each}."
    title = _TITLES[f"{metric} of {frame.score}" if metric == "loss" else metric]
    return drawn(frame.key + metric, title, said, figure)


def _draw_line(axes: Axes, name: str, grid: Grid, there: Attendance | None, style: Style) -> None:
    """Draw a method's means; those of few people as hollow points off the line."""
    rounds = np.array(grid.rounds)
    thin = np.array([there is not None and there.thin(round) for round in grid.rounds])
    look: dict[str, Any] = {"color": style[0], "markersize": 4}
    marker = "o" if len(rounds) == 1 else None
    line = {**look, "linestyle": style[1], "linewidth": 1.7, "marker": marker}
    axes.plot(rounds, np.where(thin, np.nan, grid.means), label=short_name(name, 16), **line)
    points = {**look, "linestyle": "none", "marker": "o", "fillstyle": "none"}
    axes.plot(rounds[thin], grid.means[thin], **points)


def _count_people(
    axes: Axes,
    grids: Mapping[str, Grid],
    there: Mapping[str, Attendance],
    look: Mapping[str, Style],
) -> None:
    """Draw of how many people each mean is."""
    for name, grid in grids.items():
        style: dict[str, Any] = dict(zip(("color", "linestyle"), look[name], strict=True))
        axes.step(grid.rounds, grid.there.sum(1), where="mid", linewidth=1.2, **style)
    axes.set_ylim(0, max(len(one.people) for one in there.values()) * 1.1)
    axes.yaxis.set_major_locator(MaxNLocator(2, integer=True))
    axes.set_ylabel("people", fontsize=8)


def _scale(axes: Axes, metric: str, means: list[Floats]) -> None:
    every = np.concatenate(means)
    every = every[np.isfinite(every)]
    if metric == "macro_f1":
        axes.set_ylim(0, 1.02)
    elif metric == "r2":  # it has no least; far below 0 a model is of no use
        axes.set_ylim(min(0, max(-1, 1.1 * float(every.min()))), 1.02)
    elif every.min() > 0 and every.max() > 50 * every.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0, top=1.15 * float(every.max()) or 1.0)


def _said(frame: Frame, metric: str) -> str:
    ends, there = [], _absences(frame)

    def of(name: str, round: int) -> str:
        """Return of how many people the mean is; "" where that is the same in every round."""
        if name not in there:
            return ""
        known, tested = there[name].count(round)
        return f" (of {tested} of {known} people)"

    for name in frame.methods:
        grid = frame.units(name, metric)
        if grid.rounds:
            first, last = grid.rounds[0], grid.rounds[-1]
            ends.append(
                f"{name} from {grid.means[0]:.3f} in round {first}{of(name, first)} to "
                f"{grid.means[-1]:.3f} in round {last}{of(name, last)}"
            )
    thin = [
        f"{name} {', '.join(map(str, rounds))}"
        for name, one in there.items()
        if (rounds := [round for round in one.rounds if one.thin(round)])
    ]
    said = f" Rounds with fewer than half of the people: {'; '.join(thin)}." if thin else ""
    return f"Mean over {frame.unit}: {'; '.join(ends)}.{said}"


def gain_strip(frame: Frame) -> Drawn | None:
    """Draw every person's gain in score over the twin, a line of dots for each method."""
    found, over = gains(frame), twin(frame)
    if not found:
        return None
    look = styles(frame.methods)
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH, 1.1 + 0.42 * len(found)), layout="constrained")
        axes = figure.add_subplot()
        for row, (name, each) in enumerate(found.items()):
            values = np.array(sorted(each.values()))
            # Neighbours in value stand at different heights, so that none hides another.
            height = row + 0.22 * ((np.arange(len(values)) % 3) - 1)
            colour = look[name][0]
            worse = values < 0
            axes.scatter(values[~worse], height[~worse], 16, color=colour, linewidth=0, alpha=0.85)
            axes.scatter(
                values[worse], height[worse], 16, facecolor="none", edgecolor=colour, linewidth=1.1
            )
            mean = float(values.mean())
            axes.plot([mean, mean], [row - 0.38, row + 0.38], color=INK, linewidth=1.6)
        axes.axvline(0, color=SOFT, linewidth=1, linestyle=(0, (3, 2)))
        axes.set_yticks(range(len(found)), [short_name(name, 16) for name in found])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlabel(f"{frame.compared} less that of {over}")
    said = [
        f"{name}: {sum(v < 0 for v in each.values())} of {len(each)} people below {over}, from "
        f"{min(each.values()):+.3f} to {max(each.values()):+.3f}"
        for name, each in found.items()
    ]
    return drawn(
        f"{frame.key}gains", f"Everybody's gain over {over}", f"{'; '.join(said)}.", figure
    )
