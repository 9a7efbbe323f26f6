"""The page on a run: one HTML file with its figures inside, read offline, by eye or by ear."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from fedsub.report.comparing import FEWEST, RESAMPLES, Pair, means_of_twins, twin
from fedsub.report.frame import Frame
from fedsub.report.protocol import Fact
from fedsub.report.rows import Rows
from fedsub.report.svg import Drawn
from fedsub_data.inspection.html import document, table
from fedsub_server.data_notes import data_in_words
from fedsub_server.method_summary import FEWEST as FEWEST_PEOPLE
from fedsub_server.remarks import remarks
from fedsub_server.twins import IN_WORDS

#: Folders beside the page.
FIGURES, TABLES = "figures", "tables"
#: What the page looks like beyond all pages.
STYLE = """\
.top { max-width: 84rem; margin: 0 auto; padding: 2rem 1.25rem 0; }
main { max-width: 84rem; padding-top: 0; }
main:focus { outline: none; }
.skip { position: absolute; left: -999rem; }
.skip:focus { position: static; display: inline-block; padding: 0.5rem 1.25rem; }
a { color: var(--focus); }
nav ul { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; list-style: none; padding: 0; }
nav li a { display: inline-block; padding: 0.2rem 0; }
h3 { font-size: 1rem; margin: 0 0 0.4rem; overflow-wrap: anywhere; }
.figures {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr));
  gap: 1.75rem 2rem; margin: 1.25rem 0; align-items: start;
}
figure { margin: 0; min-width: 0; }
figure svg { display: block; width: 100%; max-width: 44rem; height: auto; }
.file { color: var(--soft); font-size: 0.94rem; }
caption { max-width: min(46rem, calc(100vw - 2.5rem)); }
.numbers td:last-child { padding-right: 0.2rem; }
.numbers td.words { white-space: normal; min-width: 11rem; vertical-align: top; }
.numbers td.words:last-child { min-width: 18rem; }
details { margin-top: 1.25rem; }
@media (max-width: 30rem) {
  .facts th, .facts td { display: block; padding-right: 0; }
  .facts th { border-bottom: 0; padding-bottom: 0; }
}
"""


@dataclass(frozen=True)
class Section:
    """A part of the page: heading, paragraphs, figures, tables, and tables that are folded."""

    key: str
    heading: str
    texts: Sequence[str] = ()
    tables: Sequence[Rows] = ()
    figures: Sequence[Drawn] = ()
    folded: Sequence[Rows] = ()
    facts: Sequence[Fact] = ()


def page(
    title: str,
    lead: Sequence[str],
    sections: Iterable[Section],
    again: int | None,
    tables: Iterable[str] = (),
    beside: Sequence[str] = (),
) -> str:
    """Return the page as HTML; with `again`, it loads itself anew after so many seconds.

    `tables` are the names of the CSV files in the folder beside it, `beside` of files next to it.
    """
    kept = [s for s in sections if s.tables or s.figures or s.facts or s.texts]
    links = "".join(f'<li><a href="#{s.key}">{escape(s.heading)}</a></li>' for s in kept)
    notes = [*lead]
    if again is not None:
        notes.append(f"The run goes on; this page loads itself anew every {again} seconds.")
    body = (
        '<a class="skip" href="#content">Skip to the results</a>\n<header class="top">\n'
        f"<h1>{escape(title)}</h1>\n"
        + "".join(f"<p>{escape(text)}</p>\n" for text in notes)
        + f'<nav aria-label="Parts of this page"><ul>{links}</ul></nav>\n</header>\n'
        + '<main id="content" tabindex="-1">\n'
        + "\n".join(map(_section, kept))
        + _files(tables, beside)
        + "\n</main>"
    )
    head = f'<meta http-equiv="refresh" content="{again}">\n' if again is not None else ""
    return document(title, body, STYLE, head)


def _section(section: Section) -> str:
    parts = [f'<section aria-labelledby="{section.key}">']
    parts.append(f'<h2 id="{section.key}">{escape(section.heading)}</h2>')
    parts += [f"<p>{escape(text)}</p>" for text in section.texts]
    parts += [_table(rows) for rows in section.tables]
    if section.figures:
        parts.append('<div class="figures">')
        parts += [
            f"<figure>\n<figcaption><h3>{escape(one.title)}</h3></figcaption>\n{one.svg}\n"
            f'<p class="file"><a href="{FIGURES}/{quote(one.name)}.png">PNG</a></p>\n</figure>'
            for one in section.figures
        ]
        parts.append("</div>")
    for rows in section.folded:
        parts.append(f"<details><summary>Table: {escape(rows.caption)}</summary>")
        parts.append(f"{_table(rows)}</details>")
    if section.facts:
        parts.append(table((), section.facts))
    return "\n".join([*parts, "</section>"])


def _files(tables: Iterable[str], beside: Sequence[str]) -> str:
    """Return links to the tables beside the page."""
    also = ", ".join(f'<a href="{quote(name)}">{escape(name)}</a>' for name in beside)
    links = ", ".join(
        f'<a href="{TABLES}/{quote(name)}">{escape(name)}</a>' for name in sorted(tables)
    )
    parts = [f"Numbers in full, as CSV: {links}"] * bool(links)
    parts += [f"For a paper, as LaTeX: {also}"] * bool(also)
    return "".join(f'\n<p class="file">{part}</p>' for part in parts)


def _table(rows: Rows) -> str:
    return table(rows.head, rows.rows, rows.caption, rows.words)


def lead(frame: Frame, pairs: Sequence[Pair]) -> list[str]:
    """Return two or three sentences on the run's results."""
    begun = [f"{t.method} {t.rounds} of {t.wanted} rounds" for t in frame.traces if not t.finished]
    begun += [f"{name} not begun" for name in frame.missing]
    state = f"Not finished: {', '.join(begun)}." if begun else ""
    tested = [t for t in frame.traces if t.summary.evaluated_round is not None]
    if not tested:
        return [text for text in (state, "Nothing has been evaluated yet.") if text]
    people, all_there = (max(getattr(t.summary, n) for t in tested) for n in ("clients", "people"))
    who = "1 person" if all_there == 1 else f"{all_there} people"
    of = "" if people == all_there else f"{people} of "
    what = "Mean absolute error" if frame.score == "mae" else "Macro F1"
    scores = ", ".join(
        f"{t.method} {frame.of_task.text(getattr(t.summary, frame.score))}"
        + (f" (of {t.summary.clients})" if t.summary.clients < people else "")
        for t in tested
    )
    said = [f"{what}, mean over {of}{who}: {scores}."]
    said += _alone(frame)
    said += _differences(pairs, twin(frame))
    return [text for text in (state, *said, *warnings(frame)) if text]


def warnings(frame: Frame) -> list[str]:
    """Return in sentences all that a terminal warned of: what bends or breaks a run's numbers."""
    tested = [t.summary for t in frame.traces if t.summary.evaluated_round is not None]
    return [*remarks(tested), *data_in_words(frame.notes)]


def _alone(frame: Frame) -> list[str]:
    """Return the mean score without others, by each twin that there is, the better one first."""
    means = sorted(means_of_twins(frame).items(), key=lambda one: one[0] != twin(frame))
    of = frame.of_task
    each = [f"{name} ({IN_WORDS[name]}) {of.text(of.sign * mean)}" for name, mean in means]
    return [f"Without others: {', '.join(each)}."] if each else []


def _differences(pairs: Sequence[Pair], over: str) -> list[str]:
    """Return sentences on intervals: first of methods beside the twin, then of the others."""
    judged = [pair for pair in pairs if pair.judged]
    alone = [pair for pair in judged if over in (pair.first, pair.second)]
    others = [pair for pair in judged if pair not in alone and pair.better]
    said = []
    if alone:
        each = []
        for pair in alone:
            name = pair.second if pair.first == over else pair.first
            gain = pair.difference if name == pair.first else -pair.difference
            each.append(f"{name} {round(gain, 3) + 0.0:+.3f} ({pair.verdict(name)})")
        said.append(f"Against {over}: {', '.join(each)}.")
    if others:
        shown = [
            f"{pair.better} is better than "
            f"{pair.second if pair.better == pair.first else pair.first} "
            f"by {abs(pair.difference):.3f}"
            for pair in others
        ]
        said.append(f"The intervals show that {'; '.join(shown)}.")
    elif judged and not any(pair.better for pair in judged):
        said.append("No difference between methods is shown: every interval holds 0.")
    return said


def how_compared(pairs: Sequence[Pair]) -> list[str]:
    """Return how a difference is judged, and when not to trust it."""
    if not pairs:
        return []
    few = min(pair.n for pair in pairs)
    texts = [
        "One method is called better than another only where the 95 % interval of the mean "
        f"difference over the same people excludes 0: paired bootstrap, {RESAMPLES:,} resamples "
        "of people. It speaks of other people like these, not of other seeds."
    ]
    if len(pairs) > 1:
        texts.append(
            f"Each of these {len(pairs)} pairs has an interval of its own. Of twenty pairs without "
            "any difference, about one is called better by chance."
        )
    if few < FEWEST_PEOPLE:
        who = "one person" if few == 1 else f"{few} people"
        texts.append(
            f"With {who} no method is called better: chance alone is as clear, and no interval is "
            "given."
        )
    elif few < FEWEST:
        texts.append(f"With {few} people no method is called better: chance alone is as clear.")
    elif few < 15:
        texts.append(f"With {few} people such intervals are somewhat too narrow.")
    return texts
