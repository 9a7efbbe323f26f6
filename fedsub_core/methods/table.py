"""The table of methods: the cards in this folder, and those of installed packages.

A package adds methods under the entry point group ``fedsub.methods``, each a :class:`MethodCard`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules

from fedsub_core import methods as folder
from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import MethodCard
from fedsub_core.options import nearest

log = logging.getLogger("fedsub")

GROUP = "fedsub.methods"
#: Methods of the papers that are not offered, and why.
NOT_OFFERED = {
    "fedbn": "it is fedavg with norm = 'local', for a model with BatchNorm. Without such a layer "
    "standardise = 'client' does the like for inputs",
    "shufflefl": "it is not built. It moves samples between the devices of one user (Zhu, Yang and "
    "Wang, IMWUT 2024; the CA-AFP report cites it and prints nothing of it). Here a client is one "
    "device with one file, whose samples never leave it",
}
#: Installed methods that cannot be used, and why.
BROKEN: dict[str, str] = {}
#: Where those that can be used come from.
INSTALLED: dict[str, EntryPoint] = {}


def _cards() -> Iterator[MethodCard]:
    for module in iter_modules(folder.__path__):
        card = getattr(import_module(f"{folder.__name__}.{module.name}"), "CARD", None)
        if isinstance(card, MethodCard):
            yield card


#: Methods of this folder, by name.
HOUSE: dict[str, MethodCard] = {
    card.name: card for card in sorted(_cards(), key=lambda card: card.name)
}


def _table() -> dict[str, MethodCard]:
    table = dict(HOUSE)
    for point in entry_points(group=GROUP):
        try:
            card = point.load()
        except Exception as error:  # whatever another package's import raises
            BROKEN[point.name] = f"its package cannot be loaded: {type(error).__name__}: {error}"
            continue
        if not isinstance(card, MethodCard) or card.name != point.name:
            BROKEN[point.name] = f"{point.value} is no MethodCard of that name"
        elif point.name in table:
            BROKEN[point.name] = f"{point.value} has the name of another method"
            log.warning("method %r: %s; the other one is used", point.name, BROKEN[point.name])
        else:
            table[point.name], INSTALLED[point.name] = card, point
    return table


METHODS: dict[str, MethodCard] = _table()


def method(name: str) -> MethodCard:
    """Return the card of the method called `name`, or raise a ConfigError that suggests one."""
    if name in METHODS:
        return METHODS[name]
    if name in NOT_OFFERED:
        raise ConfigError(f"method {name!r} is not offered: {NOT_OFFERED[name]}.")
    if name in BROKEN:
        raise ConfigError(f"method {name!r}: {BROKEN[name]}. Reinstall or remove it.")
    raise ConfigError(f"unknown method {name!r}.{nearest(name, METHODS, 'Known methods')}")
