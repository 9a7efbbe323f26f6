"""Figures of a page: drawn once with Matplotlib, as SVG inside the page and as PNG beside it.

Weighed for a page that is one file, read offline and aloud: Plotly's script is 3 to 5 MB in every
page, Vega's with Altair about 0.8 MB; both draw by script, which the page's policy forbids, and
leave a reader of the screen with a canvas or unnamed paths. Matplotlib's SVG is 10 to 60 KB a
figure, needs no script, and is text: it takes the page's colours, light and dark, gets a title and
a description, and its labels can be searched. What is lost is the pointer's reading of values; the
tables have them.
"""

import io
import re
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from fedsub_data.inspection.drawing import DOTS_PER_INCH

#: The page's light colours in figures, and what they are inside the page.
INK, SOFT, LINE = "#1f2328", "#57606a", "#d0d7de"
_THEME = {INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)"}
#: As wide as a phone shows without making its text small.
WIDTH = 4.7
LOOK: Any = {
    "svg.fonttype": "none",
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": LINE,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Drawn:
    """A figure: file name without ending, title, what it shows in words, and its two forms."""

    name: str
    title: str
    words: str
    svg: str
    png: bytes


def drawn(name: str, title: str, words: str, figure: Figure) -> Drawn:
    """Return both forms of `figure`; equal figures are equal bytes."""
    text, image = io.StringIO(), io.BytesIO()
    with matplotlib.rc_context(LOOK | {"svg.hashsalt": name}):
        figure.savefig(image, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        # What the layout found holds for the second form, too.
        figure.set_layout_engine("none")
        plain = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", dpi=DOTS_PER_INCH, transparent=True, metadata=plain)
    return Drawn(
        name, title, words, _inside_a_page(text.getvalue(), name, title, words), image.getvalue()
    )


def _inside_a_page(svg: str, name: str, title: str, words: str) -> str:
    """Return the SVG with names that no other figure has, the page's colours, and its words."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{name}-", svg)
    for colour, variable in _THEME.items():
        svg = svg.replace(colour, variable)
    width, height = (
        round(float(points) * 96 / 72)
        for points in re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2]
    )
    start, end = svg.index("<svg"), svg.index(">") + 1
    box = re.search(r'viewBox="[^"]*"', svg[start:end])
    head = (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="{width}" height="{height}" '
        f'{box[0] if box else ""} role="img" aria-labelledby="{name}-title {name}-desc">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-desc">{escape(words)}</desc>\n'
    )
    return head + svg[end:].strip()
