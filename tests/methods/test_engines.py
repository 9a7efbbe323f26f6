"""Every method gives the same in every engine.

Ray runs all methods of the table, one after another. A deployment starts a process for every
message: it runs one method of each kind of messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedsub.testing import engines
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import HOUSE
from fedsub_core.models.kinds import mlp


def unlike(cards: Mapping[str, MethodCard]) -> list[str]:
    """Return the first method of each kind of messages: which parts go up and down."""
    found: dict[object, str] = {}
    model = mlp(6, 3)
    for name, card in cards.items():
        hyper = card.agreed()
        ways = (card.sends(model, hyper), card.receives(model, hyper))
        found.setdefault(tuple(frozenset(d.kind for d in way.values()) for way in ways), name)
    return list(found.values())


TestEveryEngine = engines(*HOUSE, deployed=unlike(HOUSE))
