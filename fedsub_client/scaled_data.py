"""The data of clients that share a stack: standardised, encoded, stacked, anew when data come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedsub_client.split_client import SplitClient
from fedsub_core.data.graphs import graph_rows
from fedsub_core.data.samples import Samples
from fedsub_core.data.stacks import Stack, stack, with_copies
from fedsub_core.data.standardise import POOLS, Moments, Scaling, moments, of_bytes
from fedsub_core.data.standardise import scaling as own_scaling
from fedsub_core.encoders.encoder import FULL, Encoder
from fedsub_core.encoders.standardised import (
    feature_moments,
    feature_scaling,
    of_person,
    seen,
    shared_features,
)
from fedsub_core.secure.messages import FEATURES, SAMPLES

#: float32 values of the widest layer of a client's samples that are tested at a time, and how few
#: and how many samples that may be. All blocks are full: a product's last digits depend on how many
#: rows it has, and so a client's loss would on who shares its stack.
TESTED_VALUES, LEAST_TESTED, MOST_TESTED = 2**15, 32, 64


@dataclass
class ScaledData:
    """The training and test samples of clients in a round, as two stacks.

    Parameters
    ----------
    standardise : ``federation``, ``federation-median``, ``client`` or ``none``.
    widest : values of the model's widest layer, per sample.
    encoder : what makes the features that the stacks hold; None: they hold samples.
    trains : whether the model is trained: its features are then standardised, too.

    Raises ConfigError if features of all samples would take too much memory.
    """

    clients: Sequence[SplitClient]
    standardise: str
    device: str
    widest: int
    encoder: Encoder | None = None
    trains: bool = True
    _made: tuple[object, Stack, Stack] | None = field(init=False, default=None)
    _held_back: tuple[object, Stack] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.encoder is not None:
            longest = max(len(c.train_y) for c in self.clients)
            longest += max(len(c.test_y) for c in self.clients)
            self.encoder.check_memory(len(self.clients) * longest)

    @property
    def tested_at_a_time(self) -> int:
        """Samples of a client that are tested at a time; test stacks are padded to whole blocks."""
        return min(max(TESTED_VALUES // self.widest, LEAST_TESTED), MOST_TESTED)

    @property
    def levels(self) -> bool:
        """Whether stacks hold an encoder's levels, a byte each: nothing standardises them."""
        return self.encoder is not None and not self.trains

    def are_all(self, index: Sequence[int]) -> bool:
        """Return whether the clients at `index` are everybody, in their order."""
        return list(index) == list(range(len(self.clients)))

    def at(self, round: int, shared: Scaling | None) -> tuple[Stack, Stack]:
        """Return the round's train and test stacks; `shared` is the federation's scaling."""
        standard = None if shared is None else shared.bits
        key = standard, [c.held(round) for c in self.clients]
        if self._made is None or self._made[0] != key:
            held = [c.at(round) for c in self.clients]
            trained = self._stack(held, [(c.train, c.train_y) for c in held], shared)
            test = [(c.test, c.test_y) for c in held]
            self._made = (
                key,
                with_copies(trained, [c.train_copies for c in held]),
                self._stack(held, test, shared, self.tested_at_a_time),
            )
        return self._made[1], self._made[2]

    def validation(self, shared: Scaling | None) -> Stack:
        """Return the stack of what is held back, as :meth:`at`; it is the same in all rounds."""
        standard = None if shared is None else shared.bits
        if self._held_back is None or self._held_back[0] != standard:
            parts = []
            for c in self.clients:
                assert c.validation is not None and c.validation_y is not None
                parts.append((c.validation, c.validation_y))
            held = self._stack(self.clients, parts, shared, self.tested_at_a_time)
            self._held_back = standard, held
        return self._held_back[1]

    def forget(self) -> None:
        """Free the stacks until they are asked for again."""
        self._made = self._held_back = None

    @property
    def nbytes(self) -> int:
        """Bytes of the stacks that are there now."""
        made = () if self._made is None else self._made[1:]
        return sum(one.x.nbytes + one.y.nbytes for one in (*made, *(self._held_back or ())[1:]))

    def encoder_of(self, i: int, own: Scaling | None) -> Encoder | None:
        """Return the encoder of the `i`-th client, whose samples have the scaling `own`.

        What it has before the first round decides on it: a sample's features stay in all rounds.
        """
        if self.encoder is None or not self.encoder.personal:
            return self.encoder
        return of_person(self.encoder, self.clients[i].known_x, own)

    def scaling(self, i: int, round: int, shared: Scaling | None) -> Scaling | None:
        """Return the scaling of the `i`-th client's samples in `round`."""
        return self._scaling(self.clients[i].at(round), shared)

    def shared_moments(self, i: int, part: str) -> Moments | None:
        """Return sums over what the `i`-th client has for training before the first round.

        None where the federation shares no standardisation of these.

        Parameters
        ----------
        part : :data:`SAMPLES`, or :data:`FEATURES` that the encoder makes of them.
        """
        x = self.clients[i].at(0).train_x
        if part == SAMPLES and self.standardise in POOLS and x.dtype != np.int32:
            return moments(x)
        if part == FEATURES and shared_features(self.encoder, self.trains, self.standardise):
            assert self.encoder is not None
            return feature_moments(self.encoder, x)
        return None

    def _stack(
        self,
        clients: Sequence[SplitClient],
        parts: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
        shared: Scaling | None,
        block: int = 1,
    ) -> Stack:
        """Return the stack of a part of each client: its samples, int64 [n], and their labels."""
        xs, context = list[Samples](), list[Samples]()
        scalings = [self._scaling(c, shared) for c in clients]
        for i, (c, (rows, _), own) in enumerate(zip(clients, parts, scalings, strict=True)):
            encoder = self.encoder_of(i, own)
            if c.edges is None:
                xs.append(self._kept(c.x[rows], own, encoder))
            else:
                samples, neighbours = graph_rows(self._kept(c.x, own, encoder), c.edges, rows)
                xs.append(samples)
                context.append(neighbours)
        return stack(
            [c.client for c in clients],
            xs,
            [y for _, y in parts],
            self.device,
            [c.capacity for c in clients],
            1 if context else block,
            scalings,
            context,
        )

    def _scaling(self, held: SplitClient, shared: Scaling | None) -> Scaling | None:
        if held.x.dtype == np.int32:
            return None
        if self.standardise != "client":
            plain = shared is None and held.x.dtype == np.uint8
            return of_bytes(held.shape[0]) if plain else shared
        own = own_scaling(moments(held.train_x))
        if self.encoder is None or not self.trains:
            return own
        return replace(own, features=feature_scaling(feature_moments(self.encoder, held.train_x)))

    def _kept(self, x: Samples, own: Scaling | None, encoder: Encoder | None) -> Samples:
        """Return samples as stacks keep them: as the model sees them, or what that follows from."""
        if x.dtype in (np.uint8, np.int32):
            return x
        found = seen(x, own, encoder)
        return np.rint(found * FULL).astype(np.int8) if self.levels else found
