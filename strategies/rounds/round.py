"""A round as a value: all that a server half knows beside its state, and the models of devices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

from fedsub_core.config.halves import ServerSettings
from fedsub_core.methods.card import MethodCard
from fedsub_core.models.architecture import Shape
from fedsub_core.models.held import Held
from fedsub_core.models.model import Model
from fedsub_core.placement import Placement
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Declaration, Floats
from fedsub_core.wire.handshake import Facts
from strategies.rounds.context import Start, SumRequest
from strategies.rounds.known_classes import cut_to, widened_to_run

logger = logging.getLogger("fedsub")


class OnceLog:
    """A log of warnings in which each stands once, however many rounds give it."""

    def __init__(self) -> None:
        self._given: set[tuple[object, ...]] = set()

    def warning(self, text: str, *values: object) -> None:
        """Log a warning that was not logged before, as :func:`logging.warning` does."""
        if (text, *values) not in self._given:
            self._given.add((text, *values))
            logger.warning(text, *values)


@dataclass(frozen=True, eq=False)
class HeldModels:
    """The model of a run, and its parts that weak devices hold.

    Parameters
    ----------
    card, hyper : of the method.
    whole : the model of a device that holds everything.
    narrowed : the model of a device of a capacity below 1; each is built once.
    knowing : the models of a run with so many classes; each is built once.
    """

    card: MethodCard
    hyper: Any
    whole: Model
    narrowed: Callable[[float], Model]
    knowing: Callable[[int], HeldModels] | None = None
    _built: dict[float, Model] = field(default_factory=dict)

    @classmethod
    def of(
        cls, settings: ServerSettings, card: MethodCard, shape: Shape, classes: int
    ) -> HeldModels:
        """Return the models of a run whose samples have a shape, and of so many classes."""

        def of_capacity(capacity: float) -> Model:
            seed = settings.rounds.seed
            return Held.of(card, settings, seed, shape, classes, capacity).model

        knowing = cache(partial(cls.of, settings, card, shape))
        return cls(card, settings.hyper, of_capacity(1.0), of_capacity, knowing)

    def at(self, capacity: float) -> Model:
        """Return the model that a device of a capacity holds."""
        if capacity == 1 or not self.card.weak.narrow:
            return self.whole
        if capacity not in self._built:
            self._built[capacity] = self.narrowed(capacity)
        return self._built[capacity]

    def sends(self, model: Model) -> Declaration:
        """Return the tensors that a device with a model sends."""
        return self.card.sends(model, self.hyper)

    def start(self, clients: tuple[str, ...] = (), simulated: bool = True) -> Start:
        """Return the start of a run among clients."""
        return Start(self.whole, self.sends(self.whole), clients, simulated)

    def receives(self, model: Model) -> Declaration:
        """Return the tensors that a device with a model receives."""
        return self.card.receives(model, self.hyper)


@dataclass(frozen=True, eq=False)
class Round:
    """One round of a run; replaced, never changed.

    Parameters
    ----------
    turn : its number, of how many, and the run's seed.
    models : the run's model, and what devices of each capacity hold of it.
    capacities : the share of it that each client holds in this round, in (0, 1], by client.
    clients : everybody who ever took part, ascending.
    present : those who can train in this round, ascending.
    drawn : those of them whom ``clients-per-round`` draws, ascending.
    classes : names of the classes.
    facts : what each client said of its samples and capacity, by client.
    sent : what each of the round's clients was sent; empty before that.
    requested : what is added up in this round; None where uploads come themselves, or nothing is.
    vectors : what is sent in place of an upload, by client; of others nothing is. None: uploads
        come themselves.
    log : takes each warning once a run.
    knows : how many classes, the first ones, the device of each client knows that does not know
        all, by client.
    """

    turn: Turn
    models: HeldModels
    capacities: Mapping[str, float] = field(default_factory=dict)
    clients: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    facts: Mapping[str, Facts] = field(default_factory=dict)
    sent: Mapping[str, Bundle] = field(default_factory=dict)
    requested: SumRequest | None = None
    vectors: Mapping[str, Declaration] | None = None
    log: OnceLog = field(default_factory=OnceLog)
    knows: Mapping[str, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The round's number, from 1."""
        return self.turn.round

    @property
    def model(self) -> Model:
        """The run's model: that of a device that holds everything."""
        return self.models.whole

    @cached_property
    def in_sum(self) -> frozenset[str]:
        """The clients whose vectors are to be added up."""
        return frozenset(self.vectors or ())

    @cached_property
    def narrow(self) -> Mapping[str, Model]:
        """The models of the clients that hold less than the run's."""
        weak = {client: share for client, share in self.capacities.items() if share < 1}
        return {c: self.models.at(share) for c, share in weak.items()} if self.weakens else {}

    @property
    def weakens(self) -> bool:
        """Whether devices of a capacity below 1 hold a part of the model."""
        return bool(self.models.card.weak.narrow)

    def held_by(self, client: str) -> Model:
        """Return the model that a client holds: the run's, or what its capacity allows of it."""
        return self.narrow.get(client, self.model)

    @cached_property
    def sends(self) -> Declaration:
        """The tensors that a device sends that holds the whole model."""
        return self.models.sends(self.model)

    @cached_property
    def receives(self) -> Declaration:
        """The tensors that it receives."""
        return self.models.receives(self.model)

    def sent_by(self, client: str) -> Declaration:
        """Return the tensors that a client sends."""
        held = self.held_by(client)
        return self.sends if held is self.model else self._declared(held)[0]

    def received_by(self, client: str) -> Declaration:
        """Return the tensors that a client receives."""
        held = self.held_by(client)
        return self.receives if held is self.model else self._declared(held)[1]

    def uploaded_by(self, client: str) -> Declaration:
        """Return the tensors of a client's upload: its own, or its vector in a sum."""
        return self.travels(client)[0] if self.vectors is None else self.vectors.get(client, {})

    def travels(self, client: str) -> tuple[Declaration, Declaration]:
        """Return the tensors that a client sends and receives, of the classes that it knows."""
        if client not in self.knows:
            return self.sent_by(client), self.received_by(client)
        assert self.models.knowing is not None
        models = self.models.knowing(self.knows[client])
        held = models.at(self.capacities[client]) if client in self.narrow else models.whole
        return models.sends(held), models.receives(held)

    def as_received(self, clients: Sequence[str], bundles: Sequence[Bundle]) -> list[Bundle]:
        """Return clients' downloads as they travel, of the classes that each knows.

        What is one and the same to several stays so: it is written once.
        """
        cut: dict[tuple[int, int, float], Bundle] = {}
        found = []
        for client, bundle in zip(clients, bundles, strict=True):
            if client in self.knows:
                key = id(bundle), self.knows[client], self.capacities.get(client, 1.0)
                if key not in cut:
                    declared = self.travels(client)[1], self.received_by(client)
                    cut[key] = cut_to(bundle, *declared)
                bundle = cut[key]
            found.append(bundle)
        return found

    def as_sent(self, client: str, upload: Bundle) -> Bundle:
        """Return a client's upload with places for the classes that it does not know."""
        if client not in self.knows:
            return upload
        return widened_to_run(upload, self.travels(client)[0], self.sent_by(client))

    def _declared(self, held: Model) -> tuple[Declaration, Declaration]:
        if id(held) not in self._travels:
            self._travels[id(held)] = self.models.sends(held), self.models.receives(held)
        return self._travels[id(held)]

    @cached_property
    def _travels(self) -> dict[int, tuple[Declaration, Declaration]]:
        return {}

    def placed(self, client: str, bundle: Bundle) -> Bundle:
        """Return a bundle in which a weak device's tensors say where they stand in the run's.

        Such a device has the first entries of each axis. Only tensors that the device sends get a
        place; in downloads, too.
        """
        if client not in self.narrow:
            return bundle
        tensors = dict(bundle.tensors)
        for name, declared in self.sent_by(client).items():
            part, own, whole = tensors.get(name), declared.shape, self.sends[name].shape
            if not isinstance(part, Floats) or own == whole:
                continue
            if client in self.knows or (part.at.everywhere and part.values.shape == own):
                tensors[name] = Floats(part.values, Placement.leading(own, whole).of(part.at))
        return replace(bundle, tensors=tensors)

    def holding(self, capacity: float) -> Round:
        """Return the round in which everybody holds as much, whatever its device said."""
        return replace(self, capacities=dict.fromkeys(self.capacities, capacity))

    def delivered(self, clients: Sequence[str], downloads: Sequence[Bundle]) -> Round:
        """Return the round after its downloads went out."""
        return replace(self, sent=dict(zip(clients, downloads, strict=True)))
