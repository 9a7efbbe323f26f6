"""What pages are built of: one file with its style inside, and tables that can be read aloud."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from fedsub_data.inspection.page_style import STYLE

#: A browser then refuses whatever is not inside the file.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


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
    said = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    header = f"<thead><tr>{top}</tr></thead>\n" if head else ""
    name = escape(caption or f"table of {head[0]}s" if head else caption or "facts", quote=True)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{name}">'
        f'<table class="{kind}">\n{said}{header}<tbody>\n{body}</tbody></table></div>'
    )
