"""Docstrings as the site's API tables read them: an extension of Griffe.

Here a parameter's meaning stands behind a colon, and names that share one stand in one line. In
NumPy's style a type stands there, and Griffe gives all names of a line the first one's. So each
name gets a paragraph of its own, of which the table takes type and default from the signature.
"""

import re
from typing import Any

import griffe

#: Titles of sections whose entries are names.
_NAMED = {"Parameters", "Raises", "Attributes"}
_ENTRY = re.compile(r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)(?: : (.+))?")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


class Spelt(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = one_by_one(obj.docstring.value)


def one_by_one(text: str) -> str:
    """Return a docstring with one name a line, its meaning below it, and no roles of Sphinx."""
    text = _ROLE.sub(lambda found: f"`{found[1]}`", text)
    lines, written, i = text.splitlines(), list[str](), 0
    inside = False
    while i < len(lines):
        under = lines[i + 1] if i + 1 < len(lines) else ""
        if under.startswith("---"):
            inside = lines[i] in _NAMED
            written += [lines[i], under]
            i += 2
            continue
        found = _ENTRY.fullmatch(lines[i]) if inside else None
        if found is None:
            written.append(lines[i])
            i += 1
            continue
        i, below = i + 1, list[str]()
        while i < len(lines) and (not lines[i] or lines[i].startswith("    ")):
            below.append(lines[i])
            i += 1
        meaning = [f"    {found[2]}", *below] if found[2] else below
        for name in found[1].split(", "):
            written += [name, *meaning]
    return "\n".join(written)
