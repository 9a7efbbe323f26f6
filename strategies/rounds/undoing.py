"""A round after which most people's uploads can no longer be used is undone.

A few who lead everybody astray are found out late, when what the others send is NaN or too large.
The server then goes back to its state before they moved it, and leaves them out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.config.robust import RobustSettings
from fedsub_core.mapped_file import release
from fedsub_core.wire.bundles import Bundle, Declaration, Floats, Part
from strategies.parts.averaging import shares
from strategies.parts.clipping import scales
from strategies.parts.upload_sums import thinned
from strategies.rounds.on_disk import is_kept

State = dict[str, Tensor]
#: Rounds that can be undone, and the most bytes that the states before them may take: of large ones
#: only the last is kept, of still larger ones none.
DEEPEST, MOST_BYTES, LARGEST = 16, 2**28, 2**31
#: Of fewer people nobody can say who led the others astray.
FEWEST = 3
#: Numbers of a round's uploads that are compared at most, spread evenly over them: so many are kept
#: of each of the last rounds.
MOST_COMPARED = 2**21


@dataclass(frozen=True)
class Done:
    """A round that can be undone: the state before it, and what each of its uploads did.

    Parameters
    ----------
    moves : everybody's, float32 [people, numbers].
    examples : that each upload counts for, in their order.
    """

    state: State
    moves: NDArray[np.float32]
    examples: Mapping[str, float]

    def led_by(self, most: int, robust: RobustSettings) -> set[tuple[str, ...]]:
        """Return the few, at most `most`, who made the round's move, and who went against all."""
        if len(self.moves) < FEWEST:
            return set()
        moves = dict(zip(self.examples, self.moves, strict=True))
        both = parts_of_move(moves, self.examples, robust), opposition(moves)
        return {tuple(made_by(parts, most)) for parts in both} - {()}


@dataclass
class Undoing:
    """The last rounds, which can be undone.

    Parameters
    ----------
    robust : what bounds an upload's part in a mean, and the share of people who may be left out.
    """

    robust: RobustSettings
    _done: deque[Done] = field(default_factory=lambda: deque(maxlen=DEEPEST))
    #: Who ever made a round.
    _made: set[str] = field(default_factory=set)
    #: How many had been left out when the run last began anew.
    _anew: int = 0

    def note(
        self,
        state: State,
        uploads: Mapping[str, Bundle],
        received: Mapping[str, Bundle],
        sends: Declaration,
        keeps: Collection[str] = (),
    ) -> None:
        """Note the state before a round, its uploads as declared, and what they began from.

        What the half keeps as it came nobody changes, so it is not copied (``ServerHalf.keeps``).

        Of weak devices, too, uploads say where their numbers stand in what is declared.
        """
        size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        spare: State = {}
        while self._done and size * (len(self._done) + 1) > MOST_BYTES:
            spare = self._done.popleft().state
        if size > LARGEST:
            return
        # A copy: a strategy may change tensors of its state in place, as FedSub's cache does. A
        # large one goes where the last one stood: new pages cost as much as what is copied.
        state = {
            name: tensor if is_kept(name, keeps) else _copy(tensor, spare.get(name))
            for name, tensor in state.items()
        }
        compared = max(1, MOST_COMPARED // max(len(uploads), 2**8))
        step = max(1, sum(prod(declared.shape) for declared in sends.values()) // compared)
        every = [_move(upload, received[c], sends, step) for c, upload in uploads.items()]
        moves = np.stack(every) if every else np.zeros((0, 0), np.float32)
        examples = {client: float(upload.examples) for client, upload in uploads.items()}
        self._made |= uploads.keys()
        self._done.append(Done(state, moves, examples))

    def forget(self) -> None:
        """Forget the rounds: nothing may go back behind now."""
        self._done.clear()

    def made(self, clients: Collection[str]) -> None:
        """Note the clients that made rounds before this process did."""
        self._made |= set(clients)

    def broken(self, refused: Collection[str], asked: Collection[str]) -> bool:
        """Whether of those `asked` who ever made a round more than half are `refused` in this one.

        Who never made one may always have sent what is of no use.
        """
        made = self._made & set(asked)
        return 2 * len(made & set(refused)) > len(made)

    def undo(
        self, left_out: Collection[str], begin: Callable[[], State]
    ) -> tuple[State, list[str]] | None:
        """Return a state to go back to, and who is to be left out beside `left_out`, ascending.

        Left out are the few who led most of the last rounds (:meth:`Done.led_by`). The state is the
        one before the first of these: what the others did later, they may have been led to. Where
        there are no such few, but some were left out since the run last began anew, the harm is
        older than what is noted: then the state is that of `begin`. Else None: the fault is the
        run's settings'.
        """
        rounds = list(self._done)
        people = len(self._made | set(left_out))
        most = max(1, int(self.robust.share * people)) - len(left_out)
        led = [done.led_by(most, self.robust) for done in rounds]
        if few := Counter(group for groups in led for group in sorted(groups)).most_common(1):
            leaders = few[0][0]
            first = next(i for i, groups in enumerate(led) if leaders in groups)
            self._done = deque(rounds[:first], maxlen=DEEPEST)
            return rounds[first].state, list(leaders)
        if len(left_out) > self._anew:
            start, self._anew = begin(), len(left_out)
            self._done.clear()
            return start, []
        return None


def made_by(moved: Mapping[str, float], most: int) -> list[str]:
    """Return the few whose parts are more than half of all, ascending; nobody if they are more.

    They are those with at least half of the greatest part, if they are at most `most`.
    """
    least = max(moved.values(), default=0.0) / 2
    few = sorted(client for client, part in moved.items() if part >= least > 0)
    together = sum(moved[client] for client in few)
    return few if len(few) <= most and together > sum(moved.values()) / 2 else []


def parts_of_move(
    moves: Mapping[str, NDArray[np.float32]], examples: Mapping[str, float], robust: RobustSettings
) -> dict[str, float]:
    """Return each client's part of a round's move; the parts sum to its squared length.

    The round's move is the mean of everybody's [numbers], weighted by samples and bounded as in
    :func:`~strategies.parts.averaging.robust_mean` where all hold all; a client's part of it is
    its own move's projection on it.
    """
    if not moves:
        return {}
    counted = shares([examples[client] for client in moves], robust.most_examples)
    own = np.stack(list(moves.values())) * np.array(counted)[:, None]
    if robust.clip:
        own *= np.array(scales(np.linalg.norm(own, axis=1).tolist()))[:, None]
    return dict(zip(moves, (own @ own.sum(0)).tolist(), strict=True))


def opposition(moves: Mapping[str, NDArray[np.float32]]) -> dict[str, float]:
    """Return minus the sum of the cosines of each client's move with all others', by client.

    Who goes back as far as the others go on makes no great part of a move: it makes that small.
    """
    if not moves:
        return {}
    units = np.stack(list(moves.values())).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True).clip(1e-300)
    return dict(zip(moves, (1 - units @ units.sum(0)).tolist(), strict=True))


def _copy(tensor: Tensor, place: Tensor | None) -> Tensor:
    """Return a copy of a tensor, in the `place` of another one if that is as large."""
    if place is None or (place.shape, place.dtype) != (tensor.shape, tensor.dtype):
        return tensor.clone()
    return place.copy_(tensor)


def _move(upload: Bundle, received: Bundle, sends: Declaration, step: int) -> NDArray[np.float32]:
    """Return the way from what a client was sent to what it sends back, every `step`-th number.

    Rows whose start nobody sent count as they are.
    """
    pieces = [np.zeros(1, np.float32)]
    for name, declared in sends.items():
        if not declared.floats:  # no way from what was received leads to them
            continue
        part, begun = upload.tensors.get(name), received.tensors.get(name)
        whole = np.zeros(declared.shape, np.float32)
        if isinstance(part, Floats) and isinstance(begun, Floats) and _both_whole(part, begun):
            pieces.append(thinned(part.values, step) - thinned(begun.values, step))
            release(part.values)
            continue
        if isinstance(part, Floats):
            whole = part.at.spread(_away(part, begun, declared.shape), declared.shape)
            release(part.values)
        pieces.append(whole.ravel()[::step])
    return np.concatenate(pieces)


def _both_whole(part: Floats, begun: Floats) -> bool:
    """Return whether an upload's numbers and those that were sent are the whole tensor's."""
    whole = part.at.everywhere and begun.at.everywhere
    return whole and part.values.shape == begun.values.shape


def _away(part: Floats, begun: Part | None, shape: Sequence[int]) -> NDArray[np.float32]:
    """Return the way of an upload's numbers from those that were sent, where these are known."""
    away = part.values
    if isinstance(begun, Floats):
        if begun.at == part.at and begun.values.size == away.size:
            away = away - begun.values.reshape(away.shape)
        elif begun.values.size == begun.at.count(shape):
            sent = begun.values.reshape(begun.at.shape(shape))
            away = away - part.at.take(begun.at.spread(sent, shape))
    return away
