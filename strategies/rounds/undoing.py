"""A round after which most people's uploads can no longer be used is undone.

A few who lead everybody astray are found out one round late, when what the others send is NaN or
too large. The server then goes back to its state before that round, and leaves out who moved it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.config.settings import RobustSettings
from fedsub_core.wire.bundles import Bits, Bundle, Declaration, Dense, place
from strategies.averaging import MOST_ADDED

State = dict[str, Tensor]
#: Rounds that can be undone one after the other, and the most bytes that their states may take: of
#: large ones only the last is kept.
DEEPEST, MOST_BYTES = 8, 2**28
#: Of fewer people nobody can say who led the others astray.
FEWEST = 3
#: Numbers of an upload that are compared at most, spread evenly.
MOST_COMPARED = 2**14


@dataclass
class Undoing:
    """The states before the last rounds, and what the last one was made of.

    Parameters
    ----------
    robust : what bounds an upload's part in a mean, and the share of people who may be left out.
    """

    robust: RobustSettings
    _states: deque[State] = field(default_factory=lambda: deque(maxlen=DEEPEST))
    _moves: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    _examples: Mapping[str, float] = field(default_factory=dict)

    def note(
        self,
        state: State,
        uploads: Mapping[str, Bundle],
        received: Mapping[str, Bundle],
        sends: Declaration,
    ) -> None:
        """Note the state before a round, its uploads as declared, and what they began from."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        while self._states and size * (len(self._states) + 1) > MOST_BYTES:
            self._states.popleft()
        self._states.append(state)
        step = max(1, sum(prod(one.shape) for one in sends.values()) // MOST_COMPARED)
        self._moves = {c: _move(one, received[c], sends, step) for c, one in uploads.items()}
        self._examples = {client: float(one.examples) for client, one in uploads.items()}

    def broken(self, refused: Collection[str]) -> bool:
        """Whether more than half of those who made the last round are refused in this one."""
        made = self._examples.keys()
        return bool(
            self._states and len(made) >= FEWEST and 2 * len(made & set(refused)) > len(made)
        )

    def undo(self, left_out: Collection[str]) -> tuple[State, list[str]] | None:
        """Return the state before the last round, and who is to be left out beside `left_out`.

        None where nobody stands out, or too many would be left out: then no few led the others
        astray, and the fault is the run's settings'. Where the round before was undone, too, and
        somebody left out then, nobody need stand out.
        """
        found = (
            []
            if not self._moves
            else culprits(parts_of_move(self._moves, self._examples, self.robust))
        )
        people = len(self._examples.keys() | set(left_out))
        most = max(1, int(self.robust.share * people))
        if (self._moves and not found) or len(set(found) | set(left_out)) > most:
            return None
        self._moves = {}
        return self._states.pop(), found


def culprits(parts: Mapping[str, float]) -> list[str]:
    """Return who made at least half as much of a move as who made most, ascending.

    Nobody, unless that is more than :data:`~strategies.averaging.MOST_ADDED` times what the median
    client made.
    """
    made = sorted(parts.values())
    if not made or not made[-1] > MOST_ADDED * max(made[(len(made) - 1) // 2], 0.0):
        return []
    return sorted(client for client, part in parts.items() if part >= made[-1] / 2)


def parts_of_move(
    moves: Mapping[str, NDArray[np.float32]], examples: Mapping[str, float], robust: RobustSettings
) -> dict[str, float]:
    """Return how much of a round's move each client made; the parts sum to 1.

    The round's move is the sum of everybody's [numbers], weighted by samples and bounded as in a
    mean (:func:`~strategies.averaging.robust_mean`); a client's part of it is its own move's
    projection on it.
    """
    share = np.array([examples[client] for client in moves])
    share = np.minimum(share / np.median(share), robust.most_examples or np.inf)
    own = np.stack(list(moves.values())).astype(np.float64) * share[:, None]
    if robust.clip:
        lengths = np.linalg.norm(own, axis=1).clip(1e-300)
        own *= np.minimum(1.0, MOST_ADDED * np.median(lengths) / lengths)[:, None]
    whole = own.sum(0)
    parts = own @ whole / max(float(whole @ whole), 1e-300)
    return dict(zip(moves, parts.tolist(), strict=True))


def _move(upload: Bundle, received: Bundle, sends: Declaration, step: int) -> NDArray[np.float32]:
    """Return the way from what a client was sent to what it sends back, every `step`-th number.

    Rows whose start nobody sent count as they are.
    """
    pieces = [np.zeros(1, np.float32)]
    for name, declared in sends.items():
        if declared.kind is Bits:
            continue
        part, begun = upload.tensors.get(name), received.tensors.get(name)
        whole = np.zeros(declared.shape, np.float32)
        if part is not None and not isinstance(part, Bits):
            whole[place(part)] = part.values
            if isinstance(begun, Dense) and begun.values.shape == declared.shape:
                whole -= begun.values
        pieces.append(whole.ravel()[::step])
    return np.concatenate(pieces)
