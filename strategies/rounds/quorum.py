"""The quorum: of how many of a round's clients an upload must be usable."""

from __future__ import annotations

import math

from fedsub_core.errors import RunError
from strategies.rounds.transport import Transport


def demand_quorum(
    transport: Transport, quorum: float, round: int, usable: int, diverged: str = ""
) -> None:
    """Raise RunError if too few of those asked sent an upload that can be used.

    Parameters
    ----------
    quorum : share of them.
    diverged : says so where uploads held no finite numbers.
    """
    # Who left for good while it was asked is no part of the round.
    asked = len(set(transport.asked) - transport.delivery.unregistered)
    needed = max(1, math.ceil(quorum * asked))
    if usable >= needed:
        return
    why = (
        f" (refused so far: {dict(transport.refusals) or 'none'}); the log says why. "
        "Finished rounds are kept: the run can be resumed"
    )
    if diverged:  # with the same rate it would end again
        why = f". {diverged}"
    raise RunError(
        f"round {round}: {usable} of {asked} clients sent a usable upload within the "
        f"round's deadline, expected {needed} at least{why}"
    )
