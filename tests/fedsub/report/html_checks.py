"""What must hold of a page so that it can be read by ear, by keyboard and without a network."""

import re
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Collects ids, headings, texts and tags; refuses tags that are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.tags if name == tag]


def checked(text: str) -> Page:
    """Return the parsed page after checking what holds of every page."""
    page = Page(text)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    beside = r"(?:(?:figures|tables)/[\w.%-]+|tables\.tex)\""
    outside = re.findall(
        rf'(?:src|href|action)="(?!#|data:|{beside})[^"]*"|url\((?!#)|@import', text
    )
    assert outside == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        used = attrs.get("aria-labelledby", "").split()
        used += [v[1:] for k, v in attrs.items() if k.endswith("href") and v.startswith("#")]
        used += re.findall(r"url\(#([^)]+)\)", " ".join(attrs.values()))
        assert set(used) <= set(ids), attrs
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(attrs.get("scope") in ("col", "row") for attrs in page.all("th"))
    # All but the table of facts have a caption, and every one can be scrolled by keyboard.
    assert len(page.all("caption")) == len(page.all("table")) - 1
    regions = [a for a in page.all("div") if a.get("role") == "region"]
    assert len(regions) == len(page.all("table"))
    assert all(attrs["tabindex"] == "0" and attrs["aria-label"] for attrs in regions)
    for attrs in page.all("svg"):
        assert attrs["role"] == "img" and len(attrs["aria-labelledby"].split()) == 2
    assert len(page.all("svg")) == len(page.all("figure")) == len(page.all("desc"))
    return page
