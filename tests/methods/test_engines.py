"""A method of each kind of messages gives the same in every engine; before a release, each in Ray.

An engine carries messages, and knows no method.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fedsub.testing import engines
from fedsub.testing.engine_tests import by_ray, check_engine
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


TestEveryEngine = engines(*unlike(HOUSE))


@pytest.mark.slow
@pytest.mark.release
def test_every_method_in_ray(tmp_path: Path) -> None:
    check_engine(by_ray, list(HOUSE), tmp_path)
