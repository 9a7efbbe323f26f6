"""A status as a page in a browser: one file, in parts that are sent anew where they change."""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from fedsub.status.facts import STATES, Person, Status, Verdict
from fedsub.status.shown import NONE, WORDS, by_urgency, filled_columns, is_well, plain, span
from fedsub_data.inspection.html import document
from fedsub_server.run_folder import humanise_bytes

STYLE = """\
:root { --good: #1a7f37; --bad: #b42318; --tile: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff7b72; --tile: #1d232a; } }
main { max-width: 84rem; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; }
h2 { margin-top: 2rem; }
.verdict { font-size: 1.15rem; font-weight: 600; margin: 0.25rem 0 1rem; }
.well { color: var(--good); }
.trouble, .stopped { color: var(--bad); }
.warning ul { margin: 0.4rem 0 0; padding-left: 1.2rem; }
.warning li { overflow-wrap: anywhere; }
progress { width: 100%; height: 0.9rem; accent-color: var(--focus); }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 0.6rem;
  margin: 0.75rem 0;
}
.tiles div { background: var(--tile); border-radius: 6px; padding: 0.5rem 0.75rem; min-width: 0; }
.tiles .wide { grid-column: span 2; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.people { width: 100%; font-size: 0.88rem; }
.people th, .people td { vertical-align: top; padding-right: 0.5rem; }
.people tbody th, .people .why { overflow-wrap: anywhere; min-width: 6rem; }
.people .why { min-width: 11rem; }
.people .short { white-space: nowrap; }
.people .look th, .people .look td:nth-child(2) { color: var(--bad); font-weight: 600; }
.soft { color: var(--soft); font-size: 0.94rem; }
.alike { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: 1rem; }
.alike > div { min-width: 0; }
.alike ul { margin: 0.2rem 0; padding-left: 1.2rem; }
.alike li { overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 0; }
@media (max-width: 62rem) {
  .people thead { position: absolute; left: -999rem; }
  .people { font-size: 0.94rem; }
  .people tr { display: block; padding: 0.6rem 0; border-bottom: 1px solid var(--line); }
  .people tbody th, .people td {
    display: inline-block; max-width: 100%; border: 0; padding: 0.1rem 1rem 0.1rem 0;
    box-sizing: border-box; overflow-wrap: anywhere;
  }
  .people tbody th { display: block; font-size: 1.05rem; }
  .people td::before { content: attr(data-what) " "; color: var(--soft); font-weight: 400; }
  .people td.none { display: none; }
  .people .why, .people tbody th { min-width: 0; }
}
"""

#: Each event holds the parts that have changed; all of their text was escaped by the server.
SCRIPT = """\
const live = document.getElementById('live');
const stream = new EventSource('events');
// Set only where it is another, as readers by ear hear each change.
const say = text => { if (live.textContent !== text) live.textContent = text; };
stream.onmessage = event => {
  for (const [id, html] of Object.entries(JSON.parse(event.data)))
    document.getElementById(id).innerHTML = html;
  say('This page follows the run.');
};
stream.onerror = () => {
  say('Nobody answers any more: what stands here was the case before.');
};
"""


#: People, and groups of a class, that are listed; of more, those to look at first.
MOST = 200
#: Said beside the colour, for who does not see it.
_SIGNS = {Verdict.WELL: "✓", Verdict.TROUBLE: "!", Verdict.STOPPED: "■"}
_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
#: What a browser may do with the page: run this one script, and ask this server.
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_DIGEST}'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)


def page(status: Status, names: bool) -> str:
    """Return the page, which follows the run by itself; `names` says whether people are named."""
    said = (
        "People are named."
        if names
        else "Nobody is named, and no reason quoted: `fedsub status FOLDER` in a terminal of the "
        "server does, as does this page with --names. Numbers follow the ids' order."
    )
    body = (
        "<main>\n"
        + "".join(f'<div id="{key}">{html}</div>\n' for key, html in parts(status).items())
        + f'<p class="soft">{escape(said)} <span id="live" role="status"></span></p>\n'
        "<noscript><p>Without its script the page stays as it is: load it anew.</p></noscript>"
        f"\n</main>\n<script>{SCRIPT}</script>"
    )
    return document(f"FedSub: {plain(status.kind)}", body, STYLE, policy=POLICY)


def failed(why: str) -> dict[str, str]:
    """Return the parts that say that nothing can be read now."""
    mark = f'<p class="verdict stopped">{_SIGNS[Verdict.STOPPED]} {_text(why)}</p>'
    return {"head": mark, "look": "", "now": "", "people": "", "together": ""}


def parts(status: Status) -> dict[str, str]:
    """Return the HTML of each part of the page."""
    return {
        "head": _head(status),
        "look": _look(status),
        "now": _now(status),
        "people": _people(status),
        "together": _together(status),
    }


def _head(status: Status) -> str:
    word, verdict = WORDS[status.verdict], status.verdict
    state = "" if status.state == word else f", {status.state}"
    kind = ("well", "trouble", "stopped")[list(Verdict).index(verdict)]
    return (
        f"<h1>{_text(f'{status.kind} {status.path}')}</h1>"
        f'<p class="verdict {kind}" role="status">{_SIGNS[verdict]} {_text(word + state)}</p>'
    )


def _look(status: Status) -> str:
    if not status.troubles:
        return ""
    each = "".join(f"<li>{_text(one.text)}</li>" for one in status.troubles)
    return f'<div class="warning"><h2>Look at this</h2><ul>{each}</ul></div>'


def _now(status: Status) -> str:
    what = "runs" if status.kind == "study" else "rounds"
    done = f"{status.finished} of {status.rounds} {what} done"
    bar = (
        f'<progress max="{max(1, status.rounds)}" value="{status.finished}" '
        f'aria-label="{_text(done)}"></progress>'
    )
    tiles = "".join(
        f"<div{' class=wide' if len(said) > 24 else ''}><dt>{_text(title)}</dt>"
        f"<dd>{_text(said)}</dd></div>"
        for title, said in _facts(status, what)
    )
    listed = "".join(f"<li>{_text(part)}</li>" for part in (*status.service, *status.parts))
    return f"{bar}<dl class=tiles>{tiles}</dl>" + (f"<ul>{listed}</ul>" if listed else "")


def _facts(status: Status, what: str) -> Iterator[tuple[str, str]]:
    """Yield what is known of the whole, as a title and a text."""
    if status.method:
        yield "method", status.method
    if status.rounds:
        yield f"{what} done", f"{status.finished} of {status.rounds}"
    yield "time so far", span(status.seconds)
    if status.seconds_left is not None:
        yield "time left, about", span(status.seconds_left)
    if status.phase:
        yield "now", f"round {status.round}, {status.phase} for {span(status.phase_seconds)}"
        if status.limit is not None:
            yield "it may take", span(status.limit)
    if status.asked:
        waits = ", ".join(status.waited_for[:MOST]) or "nobody"
        yield f"asked {len(status.asked)}, waits for", waits
    if status.round_seconds is not None:
        yield "last round took", span(status.round_seconds)
    for title, number in (
        ("sent by all, last round", status.bytes_up),
        ("sent to all, last round", status.bytes_down),
        ("disk free", status.disk_free),
        ("memory of the server", status.memory),
    ):
        if number is not None:
            yield title, humanise_bytes(number)
    if status.certificate_days is not None:
        yield "certificate ends in", f"{status.certificate_days:.0f} days"
    if status.compared:
        yield (
            f"worse off than alone ({status.twin})",
            f"{len(status.worse_than_alone)} of {status.compared}"
            + "".join(f", {name}" for name in status.worse_than_alone[:MOST]),
        )


def _people(status: Status) -> str:
    if not status.people:
        return ""
    states = Counter(person.state for person in status.people)
    counts = ", ".join(f"{states[one]} {one}" for one in STATES if states[one])
    shown = by_urgency(status.people)[:MOST]
    more = len(status.people) - len(shown)
    said = f"{len(status.people)}: {counts}." + (f" The first {MOST} are shown." if more else "")
    kept = filled_columns(shown)
    head = "".join(f'<th scope="col">{_text(title)}</th>' for title in kept)
    rows = zip(shown, zip(*kept.values(), strict=True), strict=True)
    body = "".join(_row(person, [*kept], cells) for person, cells in rows)
    return (
        f'<h2>People</h2><p class="soft">{_text(said)}</p>'
        '<div class="scroll" role="region" tabindex="0" aria-label="people"><table class="people">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(person: Person, titles: Sequence[str], cells: Sequence[str]) -> str:
    first, *others = cells
    texts = "".join(
        f'<td data-what="{_text(title)}" class="{_kind(title, cell)}">{_text(cell)}</td>'
        for title, cell in zip(titles[1:], others, strict=True)
    )
    kind = "" if is_well(person) else " class=look"
    return f'<tr{kind}><th scope="row">{_text(first)}</th>{texts}</tr>'


def _kind(title: str, cell: str) -> str:
    return "none" if cell == NONE else "why" if title == "why" else "short"


def _together(status: Status) -> str:
    if not status.together:
        return ""
    said = "After the last round; who is in no list is alone."
    listed = []
    for one in status.together:
        groups = "".join(f"<li>{_text(', '.join(group))}</li>" for group in one.groups[:MOST])
        title = f"<h3>{_text(one.of)}</h3>" if one.of else ""
        listed.append(f"<div>{title}<ul>{groups}</ul></div>")
    head = f'<h2>Who is with whom</h2><p class="soft">{said}</p>'
    return f'{head}<div class="alike">{"".join(listed)}</div>'


def _text(text: object) -> str:
    return escape(plain(text), quote=True)
