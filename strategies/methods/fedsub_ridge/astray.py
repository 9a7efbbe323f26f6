"""Whose sums lead everybody astray, though each of them passed what is checked of one person's.

A head that is solved of such sums says far more than is right. Of samples no head has a squared
error below 0: so whose sums say that of this head are not sums over samples. People are not
compared with each other, and nobody honest is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedsub_core.closed_form.possible import Lost, said_most, squared_error
from fedsub_core.closed_form.sums import UNIT, Statistics
from fedsub_core.errors import MessageRefused
from fedsub_core.turn import Turn
from strategies.methods.fedsub_ridge.checks import check_rounded
from strategies.methods.fedsub_ridge.everybody import by_features, over_all
from strategies.methods.fedsub_ridge.people import counted, held, people, width
from strategies.rounds.context import Sender
from strategies.rounds.server_half import State


def astray(state: State, counts_as: Mapping[str, int], most: float) -> list[str]:
    """Return whose sums are to be taken out, ascending; [] where sums say no more than `most`.

    Parameters
    ----------
    counts_as : as how many samples each person counts.
    most : how much a head may say, over what is right.
    """
    sums, found = by_features(state), set[str]()
    for features in sums:
        inside = {c for c in people(state) if width(state, c) >= features} - found
        total = over_all(sums, features)
        for client in found:
            if width(state, client) >= features:
                total -= counted(state, client, counts_as).first(features)
        found |= set(_worst(total, state, inside, counts_as, most))
    return sorted(found)


def impossible(state: State, turn: Turn, fading: bool) -> dict[str, MessageRefused]:
    """Return whose sums would be refused if they came now, and why.

    `fading` is :func:`~strategies.methods.fedsub_ridge.checks.check_sums`'s.
    """
    found = {}
    for client in people(state):
        sums = held(state, client)
        samples = int(sums.class_sums[:, 0].sum()) // UNIT
        try:
            check_rounded(sums, samples, Sender(client, turn).refuse, fading)
        except MessageRefused as error:
            found[client] = error
    return found


def _worst(
    total: Statistics, state: State, inside: set[str], counts_as: Mapping[str, int], most: float
) -> Iterator[str]:
    """Yield one after the other whose sums the `total` is better without, until it is sound."""
    while inside:
        said, head = said_most(total)
        if said <= most:
            return
        own = {c: counted(state, c, counts_as).first(total.features) for c in sorted(inside)}
        errors = {
            client: squared_error(one, head, Lost.of(held(state, client)).first(total.features))
            for client, one in own.items()
        }
        worst = min(errors, key=errors.__getitem__)
        if errors[worst] >= 0:
            return
        total -= own[worst]
        inside = inside - {worst}
        yield worst
