"""People whose sums lead everybody astray, though they passed the checks of a single person's.

A head that is solved of such sums explains far more than there is. Over samples no head has a
squared error below 0. So sums over which this head has one are not sums over samples. People are
not compared with each other, and nobody honest is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedsub_core.closed_form.possible import Lost, explained_share, squared_error
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.errors import MessageRefused
from fedsub_core.turn import Turn
from strategies.methods.fedsub_ridge.checks import check_rounded
from strategies.methods.fedsub_ridge.everybody import by_features, over_all
from strategies.methods.fedsub_ridge.people import counted, held, people, width
from strategies.rounds.context import Sender
from strategies.rounds.server_half import State


def astray(state: State, counts_as: Mapping[str, int], most: float) -> list[str]:
    """Return the people whose sums are to be taken out, ascending; [] if heads explain no more.

    Parameters
    ----------
    counts_as : as how many samples each person counts.
    most : the greatest explained share of a head that is not looked into.
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
    """Return, by client, the refusal of sums that would be refused if they came now.

    `fading` is :func:`~strategies.methods.fedsub_ridge.checks.check_sums`'s.
    """
    found = {}
    for client in people(state):
        sums = held(state, client)
        samples = sums.samples
        try:
            check_rounded(sums, samples, Sender(client, turn).refuse, fading)
        except MessageRefused as error:
            found[client] = error
    return found


def _worst(
    total: Statistics, state: State, inside: set[str], counts_as: Mapping[str, int], most: float
) -> Iterator[str]:
    """Yield people, one by one, whose sums spoil the `total`, until it is sound."""
    while inside:
        share, head = explained_share(total)
        if share <= most:
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
