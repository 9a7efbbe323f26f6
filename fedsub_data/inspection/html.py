"""What pages are built of: one file with its style inside, and tables that can be read aloud."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

#: A browser then refuses whatever is not inside the file.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

#: The look of pages, light and dark as the reader's system has it. Images are drawn on white; on a
#: dark page they are turned light for dark, and their hues turned back.
STYLE = """\
:root {
  color-scheme: light dark;
  --ink: #1f2328; --soft: #57606a; --paper: #ffffff; --line: #d0d7de; --warn: #fff4d6;
  --warn-line: #b7791f; --focus: #0a5fb4; --shade: #8c959f80;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6edf3; --soft: #9aa4af; --paper: #14181d; --line: #3a424c; --warn: #3a2e10;
    --warn-line: #d9a441; --focus: #7cc0ff; --shade: #9aa4af80;
  }
}
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 66rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; margin: 0 0 0.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; }
p { max-width: 46rem; margin: 0.5rem 0; }
img {
  display: block; max-width: 100%; height: auto; margin: 1rem 0; padding: 0.6rem;
  box-sizing: border-box; background: #ffffff; border: 1px solid var(--line);
  border-radius: 6px;
}
@media (prefers-color-scheme: dark) {
  img { filter: invert(0.92) hue-rotate(180deg); border-color: #c5bdb3; }
}
/* A shadow stands where a table goes on beyond the edge; at its end paper hides the shadow. */
.scroll {
  overflow-x: auto; background-color: var(--paper); background-repeat: no-repeat;
  background-image: linear-gradient(to right, var(--paper) 40%, transparent),
    linear-gradient(to left, var(--paper) 40%, transparent),
    linear-gradient(to right, var(--shade), transparent),
    linear-gradient(to left, var(--shade), transparent);
  background-size: 2.5rem 100%, 2.5rem 100%, 0.8rem 100%, 0.8rem 100%;
  background-position: left, right, left, right;
  background-attachment: local, local, scroll, scroll;
}
caption { text-align: left; color: var(--soft); padding-bottom: 0.3rem; }
.scroll:focus-visible, summary:focus-visible, a:focus-visible {
  outline: 2px solid var(--focus); outline-offset: 2px;
}
table { border-collapse: collapse; margin: 0.75rem 0; font-size: 0.94rem; }
th, td { padding: 0.3rem 0.9rem 0.3rem 0; border-bottom: 1px solid var(--line); }
th { text-align: left; font-weight: 600; }
thead th { color: var(--soft); font-weight: 500; }
.numbers tbody th, .numbers td { white-space: nowrap; }
thead th { vertical-align: bottom; }
.numbers td, .numbers thead th:not(:first-child) {
  text-align: right; padding-left: 0.9rem; font-variant-numeric: tabular-nums;
}
.numbers td.words, .numbers thead th.words:not(:first-child) { text-align: left; }
.facts th { white-space: nowrap; vertical-align: top; font-weight: 500; color: var(--soft); }
.facts td { overflow-wrap: anywhere; }
.warning {
  margin: 1.5rem 0; padding: 0.75rem 1.1rem; background: var(--warn);
  border-left: 4px solid var(--warn-line); border-radius: 4px;
}
.warning h2 { margin: 0; font-size: 1.05rem; }
details { margin-top: 2.5rem; }
summary { cursor: pointer; font-weight: 600; }
"""


def document(title: str, body: str, style: str = "", head: str = "", policy: str = POLICY) -> str:
    """Return a whole page of `body`, with `style` on top of all pages' own, and more for `head`.

    `policy` says what a browser may do with it.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"{head}<title>{escape(title)}</title>\n"
        f"<style>\n{STYLE}{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    words: Collection[int] = (),
) -> str:
    """Return a table whose first column names the row; without a head, one of texts.

    Numbers stand at the right, `words` are the columns that stand at the left. Where the table is
    wider than the screen it scrolls by itself, by keyboard too.
    """
    left = [' class="words"' if place in words else "" for place in range(len(head) or 2)]
    top = "".join(
        f'<th scope="col"{kind}>{escape(cell)}</th>' for kind, cell in zip(left, head, strict=False)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(
            f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(left[1:], cells, strict=True)
        )
        + "</tr>\n"
        for first, *cells in rows
    )
    kind = "numbers" if head else "facts"
    title = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    header = f"<thead><tr>{top}</tr></thead>\n" if head else ""
    name = escape(caption or f"table of {head[0]}s" if head else caption or "facts", quote=True)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{name}">'
        f'<table class="{kind}">\n{title}{header}<tbody>\n{body}</tbody></table></div>'
    )
