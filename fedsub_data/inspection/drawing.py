"""What figures share: colours, labels that fit, and the way they become PNG.

Figures are drawn without pyplot, so nothing is shared between calls or threads. Colours can be
told apart by colour-blind people: Okabe and Ito's set (2008), orange and light blue darkened until
each has a contrast of 3 to 1 or more against white and against a dark page.
"""

import io

from matplotlib.figure import Figure

#: Okabe and Ito's hues, without black and yellow.
COLOURS = ("#0072B2", "#B87A00", "#009E73", "#CC79A7", "#2F96D8", "#D55E00")
#: A cell of a map that has no value.
LACKING = "#c9c9c9"
INK = "#333333"
ROW_INCHES = 0.17  # a line of small text needs this much
LONGEST_LABEL = 22
DOTS_PER_INCH = 144


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def short_name(name: str, longest: int = LONGEST_LABEL) -> str:
    """Return a name that fits, on one line, and in which no $ starts a formula."""
    line = " ".join(name.split())
    if len(line) > longest:
        head = (longest - 1) * 2 // 3
        line = f"{line[:head]}…{line[head + 1 - longest :]}"
    return line.replace("$", r"\$")


def plain_axes(figure: Figure) -> None:
    """Take the frames from a figure's axes."""
    for axes in figure.axes:
        axes.tick_params(length=2, color="#888888")
        for spine in axes.spines.values():
            spine.set_visible(False)


def png(figure: Figure) -> bytes:
    """Return a figure as PNG; equal figures are equal bytes."""
    plain_axes(figure)
    file = io.BytesIO()
    # Without the software's name equal figures are equal bytes.
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return file.getvalue()
