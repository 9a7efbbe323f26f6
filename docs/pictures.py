"""Draw the picture of docs/how-it-works.md: `python docs/pictures.py`."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

PICTURE = Path(__file__).with_name("images") / "round.svg"
INK, SOFT, LINE = "#1f2328", "#57606a", "#c5ccd3"
#: A person's colour; where its data of one class lie; which units matter for the class, by layer.
PEOPLE = {
    "Ann": ("#0072b2", (1.0, 1.2), ({0, 2}, {1, 2}, {0})),
    "Cem": ("#009e73", (1.8, 1.7), ({0, 1}, {2}, {0})),
    "Ben": ("#b34a00", (3.3, 2.9), ({1, 3}, {0}, {0})),
}
#: Of the rows that Ann and Cem are sent.
FUSED = "#6a3d9a"
#: Units of the drawn network's layers.
LAYERS = (2, 4, 3, 1)


def network(axes: Axes, chosen: Sequence[Collection[int]], colour: str) -> None:
    """Draw a network: `chosen` units of the layers after the input, with their rows, in colour."""
    heights = [(count - 1) / 2 - np.arange(count) for count in LAYERS]
    for layer, units in enumerate(chosen, start=1):
        for unit, height in enumerate(heights[layer]):
            there = unit in units
            ink, width, above = (colour, 1.4, 2) if there else (LINE, 0.5, 1)
            for start in heights[layer - 1]:
                ends = [layer - 1, layer], [start, height]
                axes.plot(*ends, color=ink, linewidth=width, zorder=above)
            face, edge = (colour, colour) if there else ("white", LINE)
            axes.scatter([layer], [height], 80, color=face, edgecolor=edge, zorder=3)
    axes.scatter([0] * LAYERS[0], heights[0], 80, color="white", edgecolor=SOFT, zorder=3)
    axes.set(xlim=(-0.4, 3.4), ylim=(-2.2, 2.2))
    axes.axis("off")


def plane(axes: Axes) -> None:
    """Draw a plane of two features."""
    axes.set(xlim=(0, 4.4), ylim=(0, 4), xticks=[], yticks=[])
    axes.set_xlabel("a feature", color=SOFT, fontsize=8)
    axes.set_ylabel("another", color=SOFT, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def samples(axes: Axes, name: str) -> None:
    """Draw a person's samples of the class, spread as a sunflower's seeds, and their mean."""
    colour, (x, y), _ = PEOPLE[name]
    seeds = np.arange(1, 19)
    away, angle = 0.16 * np.sqrt(seeds), 2.39996 * seeds
    axes.scatter(
        x + away * np.cos(angle), y + away * np.sin(angle), 10, color=colour, alpha=0.4, linewidth=0
    )
    prototype(axes, name)


def prototype(axes: Axes, name: str) -> None:
    """Draw the mean of a person's samples of the class."""
    colour, (x, y), _ = PEOPLE[name]
    axes.scatter([x], [y], 75, color=colour, marker="X", linewidth=0, zorder=3)


def one_round() -> Figure:
    """Return the picture of a round for one class: three people, two of whom are alike."""
    figure = Figure(figsize=(9.2, 5.4), layout="constrained")
    parts = figure.subplots(3, 4)
    heads = (
        "1  its prototype",
        "2  its subnetwork",
        "3  the server clusters",
        "4  fused, sent back",
    )
    for axes, head in zip(parts[0], heads, strict=True):
        axes.set_title(head, fontsize=10.5, color=INK, loc="left", pad=10)
    for row, (name, (colour, _, chosen)) in enumerate(PEOPLE.items()):
        plane(parts[row, 0])
        samples(parts[row, 0], name)
        parts[row, 0].text(0.1, 3.45, name, color=colour, fontsize=10.5, weight="bold")
        network(parts[row, 1], chosen, colour)
        if name == "Ben":
            network(parts[row, 3], ((), (), ()), colour)
            said = "Ben is alone and keeps its own"
        else:
            both = (PEOPLE[one][2] for one in ("Ann", "Cem"))
            network(parts[row, 3], [a & b for a, b in zip(*both, strict=True)], FUSED)
            said = f"{name} gets what both have"
        parts[row, 3].text(-0.4, 2.05, said, color=SOFT, fontsize=8)
    server = parts[1, 2]
    plane(server)
    for name in PEOPLE:
        prototype(server, name)
    server.add_patch(Ellipse((1.4, 1.45), 2.1, 1.5, angle=30, fill=False, edgecolor=FUSED))
    server.add_patch(Ellipse((3.3, 2.9), 1.0, 1.0, fill=False, edgecolor=PEOPLE["Ben"][0]))
    for axes in (parts[0, 2], parts[2, 2]):
        axes.axis("off")
    return figure


def draw(path: Path) -> None:
    """Write the picture as SVG; equal code gives equal bytes."""
    with matplotlib.rc_context({"svg.hashsalt": "fedsub", "svg.fonttype": "none"}):
        one_round().savefig(path, format="svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
