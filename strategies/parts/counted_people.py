"""Which slots may be asked for: those that enough people add to for sure, even if some go silent.

Each round's sum counts how many people have what a slot is of (a class, a unit). The next round
asks only for slots that enough people have for sure, and is opened only if they still do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from strategies.rounds.server_half import State

#: Which part of a sum's people may go silent, and it is opened nevertheless.
SILENT = 0.3
#: The round of the sum that counted last, and of how many people it was, int64 [2]; and of each
#: person: in which round's sum it was last, int64 [1].
COUNTED, COUNTED_IN = "counted", "counted.in/"


def nobody_counted() -> State:
    """Return the part of a state that says who was counted, before anybody was."""
    return {COUNTED: torch.zeros(2, dtype=torch.int64)}


def now_counted(state: State, clients: Sequence[str], round: int) -> State:
    """Return the part of a state that says who was counted, after a sum of these clients."""
    kept = {name: one for name, one in state.items() if name.startswith(COUNTED_IN)}
    new = {COUNTED_IN + client: torch.tensor([round]) for client in clients}
    return kept | new | {COUNTED: torch.tensor([round, len(clients)])}


def counted_anew(state: State) -> State:
    """Return a state as if nobody had been counted yet."""
    kept = {name: one for name, one in state.items() if not name.startswith(COUNTED_IN)}
    return kept | nobody_counted()


def not_counted(state: State, client: str) -> State:
    """Return a state without what it keeps of one client: in which sum it was last."""
    return {name: one for name, one in state.items() if name != COUNTED_IN + client}


def counted_in(state: State) -> int:
    """Return the round of the sum that counted last; 0: none did."""
    return int(state[COUNTED][0])


def was_counted(state: State, client: str) -> bool:
    """Return whether somebody was in the sum that counted last."""
    round, last = counted_in(state), state.get(COUNTED_IN + client)
    return round > 0 and last is not None and int(last) == round


def absent(state: State, clients: Sequence[str]) -> int:
    """Return the number of people who were counted last and are not among `clients`.

    Each of them may have what any slot is of.
    """
    return int(state[COUNTED][1]) - sum(was_counted(state, client) for client in clients)


def needed(least: int, people: int) -> int:
    """Return how many people must have for sure what a slot is of, where so many take part."""
    return least + int(SILENT * people)


def opened_of(sure: NDArray[np.int64], least: int, people: int) -> int:
    """Return of how many of the `people` a sum must be, so that each slot is of `least` of them.

    `sure` says of each slot that is asked for how many people it is of for sure. Where nothing is
    asked for, it is 0.
    """
    return people - (int(sure.min()) - least) if sure.size else 0


def ever_counted(state: State) -> int:
    """Return the number of people who were in a sum since people were last counted anew."""
    return sum(name.startswith(COUNTED_IN) for name in state)
