"""The installed version, which server and devices tell each other, and a digest of its code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedsub_core.kernels.library import kernels_source

#: The wheel that all of it comes in.
WHEEL = "fedsub"
#: Whose code decides what a run's numbers are.
PACKAGES = ("fedsub", "fedsub_client", "fedsub_core", "fedsub_server", "strategies")


def installed_version() -> str:
    """Return the version that is installed now, which a long process may not have loaded."""
    try:
        return version(WHEEL)
    except PackageNotFoundError:  # run from a bare source tree
        return "0+source"


VERSION = installed_version()
#: Version of secure sums, whose masks two versions derive in different ways. It is raised where a
#: device of before could take part in no sum: it still takes part in runs without them.
SUMS_VERSION = 2


@cache
def code_digest() -> str:
    """Return a digest of the code that trains, by which trees of one version differ.

    Of Python files, and of the compiled kernels, without which numbers differ in the last digits.
    """
    root = Path(__file__).parents[1]
    return digest_of((root / package for package in PACKAGES), kernels_source())


def digest_of(packages: Iterable[Path], more: str = "") -> str:
    """Return a digest of the Python files of packages, each a folder or one file, and of a text.

    A package's own tests change no number, and do not count.
    """
    digest = hashlib.blake2b(digest_size=5)
    for package in packages:
        for path in sorted(package.rglob("*.py")) if package.is_dir() else [package]:
            if "tests" in path.relative_to(package).parts:
                continue
            digest.update(f"{path.relative_to(package.parent).as_posix()}\0".encode())
            digest.update(hashlib.blake2b(path.read_bytes()).digest())
    digest.update(more.encode())
    return digest.hexdigest()


@cache
def build() -> str:
    """Return version and code, which machines that train one run share."""
    return f"{VERSION} (code {code_digest()})"
