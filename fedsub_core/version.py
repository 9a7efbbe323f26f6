"""The installed version, which server and devices compare in the handshake."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("fedsub")
except PackageNotFoundError:  # run from a bare source tree
    VERSION = "0+source"
