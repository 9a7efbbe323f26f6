"""The picture of a day: a strip for each class over time, in the terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from fedsub.recordings.day import Day, Stays, moment

if TYPE_CHECKING:
    from fedsub.report.svg import Drawn

#: Cells of a strip, in the terminal and on a page.
_CELLS, _FINE = 60, 600
#: Columns of the terminal that a class's name takes at most.
_NAME = 16


def strips(day: Day) -> str:
    """Return strips of text: a line for each class, with its minutes, by recording."""
    parts = []
    for stays in day.stays.values():
        minutes = day.minutes(stays.recording)
        cells = stays.cells(_CELLS, len(day.classes)).tolist()
        wide = min(_NAME, max(map(len, minutes)))
        begins, ends = (moment(at, stays.tick) for at in _span(stays))
        lines = [stays.recording]
        for place, name in enumerate(day.names):
            if name not in minutes:
                continue
            label = place if place < len(day.classes) else -1
            strip = "".join("█" if cell == label else "·" for cell in cells)
            lines.append(f"  {name[:_NAME]:{wide}}  {strip}  {minutes[name]:8.1f} min")
        room = max(1, _CELLS - len(begins))
        lines.append(f"  {'':{wide}}  {begins}{ends:>{room}}")
        parts.append("\n".join(lines))
    return "\n".join(parts)


def _span(stays: Stays) -> tuple[float, float]:
    return min(stays.begins), max(stays.ends)


def day_page(title: str, day: Day, notes: Sequence[str]) -> str:
    """Return the day as a page: one HTML file that nothing outside it belongs to."""
    from fedsub.report.page import STYLE
    from fedsub_data.inspection.html import document, table

    minutes = day.minutes()
    total = sum(minutes.values())
    rows = [(name, f"{m:.1f}", f"{m / total:.0%}") for name, m in minutes.items()]
    body = [
        f'<main id="content">\n<h1>{escape(title)}</h1>',
        f"<p>{day.windows:,} windows, {total:,.1f} minutes.</p>",
        table(("class", "minutes", "share"), rows, "Minutes by class, of all recordings"),
    ]
    for i, stays in enumerate(day.stays.values()):
        drawn = _drawn(f"day{i}", stays, day)
        body.append(f"<h2>{escape(stays.recording)}</h2>\n<figure>\n{drawn.svg}\n</figure>")
        body.append(f"<p>{escape(drawn.words)}</p>")
    if notes:
        body.append("<h2>How the recordings were read</h2>")
        body += [f"<p>{escape(note)}</p>" for note in notes]
    wide = "figure svg { max-width: 100%; }\n"
    return document(title, "\n".join([*body, "</main>"]), STYLE + wide)


def _drawn(name: str, stays: Stays, day: Day) -> Drawn:
    """Return the strips of one recording as a figure."""
    import matplotlib
    from matplotlib.figure import Figure

    from fedsub.report.svg import LOOK, SOFT, drawn

    minutes = day.minutes(stays.recording)
    begin, end = _span(stays)
    cells = stays.cells(_FINE, len(day.classes))
    width = (end - begin) / _FINE / 60
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(9.4, 0.9 + 0.3 * len(minutes)), layout="constrained")
        axes = figure.add_subplot()
        for row, label in enumerate(minutes):
            place = day.names.index(label)
            own = cells == (place if place < len(day.classes) else -1)
            colour = SOFT if place == len(day.classes) else f"C{place % 10}"
            bars = [(at * width, width) for at in own.nonzero()[0].tolist()]
            axes.broken_barh(bars, (row - 0.4, 0.8), facecolor=colour, linewidth=0)
        axes.set_yticks(range(len(minutes)), list(minutes))
        axes.set_ylim(len(minutes) - 0.5, -0.5)
        axes.set_xlim(0, (end - begin) / 60)
        axes.set_xlabel(f"minutes since {moment(begin, stays.tick)}")
    said = ", ".join(f"{label} {m:.1f} minutes" for label, m in minutes.items())
    first, last = (moment(at, stays.tick) for at in (begin, end))
    words = f"From {first} to {last}: {said}."
    return drawn(name, f"Classes over time: {stays.recording}", words, figure)
