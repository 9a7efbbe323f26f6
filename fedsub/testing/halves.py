"""A method's server half without a run: its functions one by one, in rounds that a test makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from torch import Tensor

from fedsub_core.config.run_config import RunConfig
from fedsub_core.methods.table import METHODS
from fedsub_core.models.model import Model
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import HeldModels, Round
from strategies.rounds.server_half import ServerHalf
from strategies.strategy import PersonalizedStrategy

FIRST = Turn(1, 9, 0)


@dataclass
class HalfAlone:
    """A server half, and what a round of it is made of.

    Parameters
    ----------
    half : the method's.
    model : of a device that holds everything.
    capacities : by client; who is not named holds everything.
    sent : what each of the round's clients was sent.
    finished_rounds : after which round an upload is checked.
    """

    half: Any
    model: Model
    capacities: dict[str, float] = field(default_factory=dict)
    sent: Mapping[str, Bundle] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    finished_rounds: int = 0

    @classmethod
    def of(
        cls,
        method: str,
        model: Model,
        capacities: Mapping[str, float] | None = None,
        keys: Mapping[str, Any] | None = None,
        **hyper: Any,
    ) -> HalfAlone:
        """Return the half of a method whose run would have a model, and other `keys`."""
        given = replace(METHODS[method].agreed(), **hyper)
        config = RunConfig(method=method, beside="", threads=1, hyper={method: given}, **keys or {})
        half = ServerHalf.of(config.server_settings(method))
        return cls(half, model, dict(capacities or {}))

    def turn(self, round: int) -> Turn:
        """Return a round's turn."""
        rounds = self.half.settings.rounds
        return Turn(round, rounds.rounds, rounds.seed)

    def start(self) -> Start:
        """Return the start of a run of the half without clients."""
        return start_of(self.half, self.model)

    def round(self, number: Turn | int = FIRST, **known: Any) -> Round:
        """Return a round in which all who are named take part."""
        half, model, clients = self.half, self.model, tuple(sorted(self.capacities))
        turn = self.turn(number) if isinstance(number, int) else number

        def narrowed(capacity: float) -> Model:
            if half.card.weak.narrow != "model":
                return model
            held: Model = half.card.weak.load_holds()(model, half.hyper, capacity)
            return held

        models = HeldModels(half.card, half.hyper, model, narrowed)
        there = {"clients": clients, "present": clients, "drawn": clients, "sent": self.sent}
        return Round(turn, models, self.capacities, **there | known)

    def held_by(self, client: str) -> Model:
        """Return the model that a client holds."""
        return self.round().held_by(client)


class Driven(Protocol):
    """What knows which round comes next: a driver, or a half alone."""

    finished_rounds: int

    def turn(self, round: int, /) -> Turn:
        """Return a round's turn."""

    def round(self, number: int, /) -> Round:
        """Return a round."""


def next_from(driven: Driven, client: str) -> Sender:
    """Return the sender of an upload in the round after the last finished one."""
    return Sender(client, driven.turn(driven.finished_rounds + 1))


def next_round(driven: Driven, **known: Any) -> Round:
    """Return the round after the last one that is finished, as far as more of it is `known`."""
    return replace(driven.round(driven.finished_rounds + 1), **known)


def last_round(strategy: PersonalizedStrategy) -> Round:
    """Return the last round of a run, with what its clients were sent."""
    assert strategy.begun is not None
    return strategy.begun.round


def start_of(half: ServerHalf, model: Model) -> Start:
    """Return the start of a run of a half without clients."""
    return Start(model, half.card.sends(model, half.hyper), ())
