"""The page's files: what is read, what is refused, and the headers that a browser goes by."""

from pathlib import Path

import pytest

from fedsub.deploy import page
from fedsub.deploy.page import HEADERS, read_page
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError

FILES = {
    "index.html": b"<!doctype html>",
    "app-ABCD2345.js": b"1",
    "kernels/fedsub-ABCD2345.wasm": b"\0asm",
    "sw.js": b"2",
    "manifest.webmanifest": b"{}",
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_files_are_found_by_exact_path(tmp_path: Path) -> None:
    found = read_page(write(tmp_path, FILES))
    assert found.keys() == {"/", *(f"/{name}" for name in FILES if name != "index.html")}
    assert found["/"].body == b"<!doctype html>"
    types = {path: asset.headers["content-type"] for path, asset in found.items()}
    # Browsers compile WebAssembly as it comes only if it is called so.
    assert types["/kernels/fedsub-ABCD2345.wasm"] == "application/wasm"
    assert types["/app-ABCD2345.js"].startswith("text/javascript")
    assert types["/manifest.webmanifest"] == "application/manifest+json"


def test_what_is_named_by_its_hash_is_kept_and_all_else_asked_for_anew(tmp_path: Path) -> None:
    found = read_page(write(tmp_path, FILES))
    kept = {path for path, asset in found.items() if "immutable" in asset.headers["cache-control"]}
    assert kept == {"/app-ABCD2345.js", "/kernels/fedsub-ABCD2345.wasm"}
    assert {found[path].headers["cache-control"] for path in found.keys() - kept} == {"no-cache"}
    before = found["/"].tag
    assert read_page(write(tmp_path, {"index.html": b"other"}))["/"].tag != before


@pytest.mark.parametrize("name", ["page.php", "notes", ".env.js", "a b.js", "server.key", "ä.js"])
def test_a_file_that_no_browser_needs_is_refused(tmp_path: Path, name: str) -> None:
    with refused(RunError, tmp_path / name):
        read_page(write(tmp_path, FILES | {name: b"x"}))


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_leads_nowhere(tmp_path: Path, kind: str) -> None:
    outside = write(tmp_path / "outside", {"secret.js": b"x"})
    folder = write(tmp_path / "page", FILES)
    (folder / "x.js").symlink_to(outside if kind == "folder" else outside / "secret.js")
    with refused(RunError, folder / "x.js"):
        read_page(folder)


def test_no_page_and_too_much_of_one_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused(RunError, tmp_path, got="index.html"):
        read_page(tmp_path)
    write(tmp_path, FILES)
    with monkeypatch.context() as patch, refused(RunError, expected=4):
        patch.setattr(page, "MOST_FILES", 4)
        read_page(tmp_path)
    with monkeypatch.context() as patch, refused(RunError, expected=10):
        patch.setattr(page, "MOST_BYTES", 10)
        read_page(tmp_path)


def test_the_policy_names_no_other_host_and_nothing_inline() -> None:
    rules = dict(rule.split(" ", 1) for rule in HEADERS["content-security-policy"].split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    allowed = {source for sources in rules.values() for source in sources.split()}
    assert allowed == {"'none'", "'self'", "'wasm-unsafe-eval'", "data:", "blob:"}
    assert "data:" not in rules["script-src"] and "blob:" not in rules["script-src"]
    assert "accelerometer=(self)" in HEADERS["permissions-policy"]
    assert "geolocation=()" in HEADERS["permissions-policy"]
