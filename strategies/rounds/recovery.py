"""The recovery of a run whose state leads people astray."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from fedsub_core.metric_names import LEFT_OUT
from fedsub_core.metrics import MetricRow
from strategies.rounds.server_half import ServerHalf, State
from strategies.rounds.undoing import Undoing

log = logging.getLogger("fedsub")


def recovered(
    half: ServerHalf,
    state: State,
    undoing: Undoing,
    left_out: Collection[str],
    begin: Callable[[], State],
    round: int,
    diverged: str = "",
) -> tuple[State, list[MetricRow]] | None:
    """Return the state to go on from after most uploads of a round could not be used.

    Taken out are those whose part in the state leads others astray. Where nobody knows who they
    are, an earlier state is gone back to, without those who led away from it. None: impossible.

    Parameters
    ----------
    left_out : who trains no more.
    begin : returns the state of a run that begins.
    diverged : says so where uploads held no finite numbers.
    """
    if astray := half.astray(state):
        for client in astray:
            state = half.without(state, client)
        log.warning(
            "round %d: most uploads cannot be used. Taken out and left out from now on, as no "
            "samples lead to what they had sent: %s",
            round,
            ", ".join(astray),
        )
        return state, left_out_rows(round, astray)
    undone = undoing.undo(left_out, begin)
    if undone is None:
        return None
    earlier, astray = undone
    earlier = half.gone_back(earlier, state)
    for client in astray:
        earlier = half.without(earlier, client)
    rate = " (honest ones, if the learning rate is too high)" if diverged else ""
    log.warning(
        "round %d: most uploads cannot be used; the server goes back to an earlier state. Left "
        "out from now on, as they moved most what came after it: %s",
        round,
        (", ".join(astray) or "nobody else; it begins anew") + rate,
    )
    return earlier, [*left_out_rows(round, astray), MetricRow(round, "", None, "undone", 1)]


def left_out_rows(round: int, clients: Collection[str]) -> list[MetricRow]:
    """Return the rows that say who trains no more from a round on."""
    return [MetricRow(round, client, None, LEFT_OUT, 1) for client in clients]
