"""The installed version, which server and devices compare in the handshake."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version that is installed now, which a long process may not have loaded."""
    try:
        return version("fedsub")
    except PackageNotFoundError:  # run from a bare source tree
        return "0+source"


VERSION = installed_version()
