"""Packages that offer methods: what of them stands beside FedSub's own version and code.

A package in FedSub's own wheel has no version beside FedSub's; its code is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from fedsub_core.methods.table import INSTALLED, METHODS
from fedsub_core.version import PACKAGES, VERSION, WHEEL, build, digest_of


def package_of(name: str) -> str:
    """Return package and version that method `name` comes with; "" in FedSub's own wheel."""
    point = INSTALLED.get(name)
    return "" if point is None or in_our_wheel(point) else title_of(point)


def version_with(names: Iterable[str]) -> str:
    """Return FedSub's version, and of each package that offers one of the methods `names`.

    Server and devices compare it by :class:`fedsub_core.release.Release`.
    """
    packages = sorted({package for name in names if (package := package_of(name))})
    return " with ".join([VERSION, *([" and ".join(packages)] if packages else [])])


@cache
def package_build(name: str) -> str:
    """Return package, version and a digest of its code, of method `name`; "" of the house's."""
    if name not in INSTALLED:
        return ""
    return f"{title_of(INSTALLED[name])} (code {digest_of(sorted(_code(name)))})"


def build_with(name: str) -> str:
    """Return version and code of FedSub, and of the package that offers method `name`."""
    return " with ".join(filter(None, (build(), package_build(name))))


def in_our_wheel(point: EntryPoint) -> bool:
    """Return whether an entry point came with FedSub itself, as the papers' wing does."""
    return point.dist is not None and point.dist.name == WHEEL


def title_of(point: EntryPoint) -> str:
    """Return the package that offers something, with its version where it has one of its own."""
    package = point.module.partition(".")[0]
    if in_our_wheel(point):
        return package
    if point.dist is None:  # it is offered from a bare source tree
        return f"{package} 0+source"
    return f"{point.dist.name} {point.dist.version}"


def by_package(house: Iterable[str], installed: Mapping[str, EntryPoint]) -> dict[str, list[str]]:
    """Return names by the package that offers them; under "" those of the `house`."""
    found = {"": list(house)}
    for name, point in installed.items():
        found.setdefault(title_of(point), []).append(name)
    return found


def _code(name: str) -> Iterator[Path]:
    """Yield the packages, or single files, in which card and halves of an installed method lie."""
    card = METHODS[name]
    paths = (INSTALLED[name].module, card.learner, card.strategy)
    for top in {path.partition(":")[0].partition(".")[0] for path in paths} - {*PACKAGES}:
        spec = find_spec(top)
        if spec is not None and spec.submodule_search_locations:
            yield from map(Path, spec.submodule_search_locations)
        elif spec is not None and spec.origin is not None:
            yield Path(spec.origin)
