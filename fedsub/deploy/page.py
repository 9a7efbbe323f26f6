"""The page that devices' browsers load, from memory: files that were read once, by exact path.

A browser gets nothing else, so no path leads out of the folder. The headers let the page load and
call its own origin alone, and let nobody put it into a frame.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedsub_core.errors import RunError

#: Files and bytes of a page at most.
MOST_FILES, MOST_BYTES = 256, 2**25
INDEX = "index.html"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".pub": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
#: As esbuild names a file by its content: such a name never stands for other bytes.
_HASHED = re.compile(r".+-[A-Z0-9]{8}\.[a-z0-9]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SELF = ("style-src", "font-src", "connect-src", "worker-src", "manifest-src")
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "img-src 'self' data: blob:",
        *(f"{directive} 'self'" for directive in _SELF),
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_SENSORS = ("accelerometer", "gyroscope", "magnetometer", "screen-wake-lock")
_NEVER = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")
#: Of every answer. No Strict-Transport-Security: it would bind all ports of the host.
HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": ", ".join(
        [*(f"{name}=(self)" for name in _SENSORS), *(f"{name}=()" for name in _NEVER)]
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class Asset:
    """A file of the page, with the headers that are its own."""

    body: bytes
    headers: Mapping[str, str]

    @property
    def tag(self) -> str:
        """Its entity tag."""
        return self.headers["etag"]


def asset(name: str, body: bytes, type: str) -> Asset:
    """Return a file as it is served; browsers ask for it anew unless its name has its hash."""
    kept = "public, max-age=31536000, immutable" if _HASHED.fullmatch(name) else "no-cache"
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Asset(body, {"content-type": type, "cache-control": kept, "etag": tag})


def read_page(folder: Path) -> dict[str, Asset]:
    """Return the files of a page, by path; ``index.html`` is at ``/``.

    Raises RunError if there is no ``index.html``, a link, a name or an ending that no browser
    needs, or more than a page may have.
    """
    found, total = dict[str, Asset](), 0
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        inside, type = path.relative_to(folder), TYPES.get(path.suffix)
        named = all(_NAME.fullmatch(part) for part in inside.parts)
        if path.is_symlink() or not path.is_file() or type is None or not named:
            raise RunError(f"{path}: expected a file of a page, which ends in {' '.join(TYPES)}")
        total += path.stat().st_size
        if len(found) >= MOST_FILES or total > MOST_BYTES:
            raise RunError(f"{folder}: expected at most {MOST_FILES} files, {MOST_BYTES} bytes")
        found[f"/{inside.as_posix()}"] = asset(path.name, path.read_bytes(), type)
    if f"/{INDEX}" not in found:
        raise RunError(f"{folder}: got no {INDEX}, expected a page that is built")
    found["/"] = found.pop(f"/{INDEX}")
    return found
