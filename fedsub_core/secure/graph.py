"""Who masks with whom: all with all, or among many a sparse graph (Bell et al. 2020, section 3.3).

People stand on a circle in an order that follows from the sum's random name, and each is a
neighbour of the nearest on either side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from math import comb, log2

#: The share of people who may go silent while a sum is made, and of those who may help the server.
DROPPED, COLLUDING = 0.3, 0.1
#: Logarithms of how likely it may be, in one sum, that it cannot be opened, and that somebody's
#: vector could be found out.
FAILS, TELLS = -20.0, -40.0


def threshold(holders: int) -> int:
    """Return of how many shares a secret is made: more than half of those who hold one.

    So no two halves of them can give away both secrets of one person.
    """
    return holders // 2 + 1


def neighbours(clients: Sequence[str], session: bytes) -> dict[str, tuple[str, ...]]:
    """Return everybody's neighbours, ascending."""
    circle = sorted(clients, key=lambda c: hashlib.sha256(session + c.encode()).digest())
    people = len(circle)
    if (degree := enough(people)) >= people - 1:
        return {one: tuple(sorted(set(clients) - {one})) for one in clients}
    near = [step for step in range(-degree // 2, degree // 2 + 1) if step]
    return {
        one: tuple(sorted(circle[(place + step) % people] for step in near))
        for place, one in enumerate(circle)
    }


@lru_cache
def enough(people: int) -> int:
    """Return how many neighbours each of so many people needs, even; all others where few.

    The least with which, but for :data:`FAILS` and :data:`TELLS`, of nobody's holders too many go
    silent or collude, and no stretch of the circle, half as long as there are neighbours, is
    empty of honest people who answer: it would cut the graph in two.
    """
    least, most = 1, people // 2
    while least < most:  # all three fall with the degree, but for steps of the threshold
        half = (least + most) // 2
        if _serves(people, 2 * half):
            most = half
        else:
            least = half + 1
    return min(2 * least, people - 1)


def _serves(people: int, degree: int) -> bool:
    others, bits = people - 1, log2(people)
    needed, dropped, colluding = (
        threshold(degree + 1),
        int(DROPPED * people),
        int(COLLUDING * people),
    )
    # Everybody holds a share of its own, too.
    silent = bits + _at_least(others, dropped, degree, degree + 2 - needed)
    told = bits + _at_least(others, colluding, degree, needed)
    apart = bits + degree / 2 * log2(DROPPED + COLLUDING)
    return silent <= FAILS and told <= TELLS and apart <= TELLS


def _at_least(others: int, marked: int, drawn: int, least: int) -> float:
    """Return the logarithm of how likely it is to draw `least` or more of the marked others."""
    ways = sum(
        comb(marked, i) * comb(others - marked, drawn - i)
        for i in range(least, min(marked, drawn) + 1)
    )
    return -1e9 if ways == 0 else log2(ways) - log2(comb(others, drawn))
