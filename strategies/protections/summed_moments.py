"""Moments of everybody's samples or features as a secure sum, before the first round."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from fedsub_core.data.standardise import LARGEST_VALUE, Moments
from fedsub_core.errors import RunError
from fedsub_core.secure import exact
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import FEATURES, MOMENTS
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.quantise import Levels
from strategies.protections.groups import Anew, Group
from strategies.protections.open_sum import TooFew
from strategies.protections.secure_sums import SecureSums
from strategies.rounds.link import Link

log = logging.getLogger("fedsub")


def summed_moments(
    sums: SecureSums,
    link: Link,
    nodes: Mapping[str, int],
    timeout: float,
    most: int,
    part: str,
    numbers: int,
) -> Moments:
    """Return everybody's moments, of which the server sees nobody's, before the first round.

    The sum is exact: it has the bits of what plain moments are pooled to.

    Parameters
    ----------
    nodes : of those whose moments these are.
    timeout, most : :meth:`Delivery.exchange`'s.
    part : what the moments are of, :data:`SAMPLES` or :data:`FEATURES`.
    numbers : how many of these each sample has.

    Raises RunError if people are too few or too many, or their sum cannot be opened, or is one that
    no samples have.
    """
    if len(nodes) > exact.MOST_PEOPLE:
        expected = f"{exact.MOST_PEOPLE} at most, or standardise = client or none"
        raise RunError(f"secure-aggregation: got {len(nodes)} people, expected {expected}")
    asks = sums.asks(link, nodes, 0, timeout, most)
    try:
        one = sums.prepared(asks, 0, sorted(nodes), exact.LIMBS * (1 + 2 * numbers))
        levels, one.smallest = Levels(range=1.0, weight=1, each=1), one.least
        plans = sums.plans(one, levels)
        told, one.once = {"phase": MOMENTS, "of": part}, f"moments of {part}"
        one.plan |= told
        asks({client: plan.record() | told for client, plan in plans.items()}, one.take_words)
        of = Anew(one, levels, {"of": part})
        found, lost = sums.opened(asks, of, partial(_moments_in, part))
    except (CannotOpen, TooFew) as error:
        raise RunError(
            f"what all standardise by cannot be added up: {error}. Start again. Devices that "
            "name an earlier sum answer none of nearly the same people, in any run: bring back "
            "or leave out whom they name, or choose standardise = client or none"
        ) from None
    if found is None:
        raise RunError(
            "what all standardise by: got moments that no samples have: somebody sent a "
            "wrong vector, and sums do not tell who (the log names their groups). Choose "
            "standardise = client or none"
        )
    if (people := len(one.sent) - len(lost)) < len(nodes):
        log.warning(
            "what all standardise by is of %d of %d people; the others were silent, refused or "
            "left out",
            people,
            len(nodes),
        )
    return found


def _moments_in(part: str, summed: Words, people: Group) -> Moments:
    """Return the moments in a sum; raises ValueError if no samples have them."""
    found = Moments.of_vector(exact.numbers_of(summed))
    if fault := found.fault(1.0 if part == FEATURES else LARGEST_VALUE):
        raise ValueError(fault)
    return found
