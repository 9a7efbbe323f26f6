"""docs/events.md names each event that the code logs, with its level, and no other."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "events.md").read_text("utf-8")
#: Which part of the page is on which packages.
PARTS = {
    "The server": ("fedsub_server", "strategies"),
    "Devices": ("fedsub_client",),
    "Both": ("fedsub_core",),
    "Commands and engines": ("fedsub",),
}
#: That of a package which may be absent.
OF_PAPERS = "The papers' methods"
#: `log` is of a level that depends.
LEVELS = ("debug", "info", "warning", "error", "exception", "critical", "log")


def logged(package: str) -> Iterator[tuple[str, str]]:
    """Yield level and text of each event that a package's code logs."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(ast.Name("log") | ast.Attribute(attr="log"), level),
                    args=[first, *rest],
                ) if level in LEVELS:
                    text = rest[0] if level == "log" else first
                    assert isinstance(text, ast.Constant), (
                        f"{path}:{node.lineno}: an event's text is the same for all of its kind: "
                        "put values in with %s, as logging does"
                    )
                    yield level, str(text.value).replace("\n", "\\n")


def test_the_page_has_every_event_and_no_other() -> None:
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    assert parts[::2] == [*PARTS, OF_PAPERS]
    for title, packages in PARTS.items():
        check_part(title, packages)


def check_part(title: str, packages: Iterable[str]) -> None:
    """Check that a part of the page has every event of these packages, and no other."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    text = dict(zip(parts[::2], parts[1::2], strict=True))[title]
    said = re.findall(r"^\| (\w+) \| `(.+)` \| .+ \|$", text, flags=re.MULTILINE)
    found = {event for package in packages for event in logged(package)}
    missing = "\n".join(f"| {level} | `{event}` | |" for level, event in found - {*said})
    assert not missing, f"docs/events.md, {title}: say what these are\n{missing}"
    assert {*said} <= found, f"docs/events.md, {title}: nobody logs { ({*said} - found) }"
    assert len(said) == len({*said}) == text.count("\n| ") - 1
