"""How the state of a run goes on: with more classes, in another run, by another standardisation."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import MethodCard
from fedsub_core.widening import widened
from strategies.rounds.context import Start

State = dict[str, Tensor]


class GoesOn(ABC):
    """The part of a server half that says how its state goes on."""

    #: Whether a run may gain classes that some devices do not know (:meth:`taken_over`).
    gains_classes = False
    card: MethodCard

    @abstractmethod
    def init(self, start: Start) -> State:
        """Return the server's state before the first round."""

    def taken_over(self, state: State, before: Start, now: Start) -> State:
        """Return the state of a run of `now` that goes on from one of `before`, of fewer classes.

        `now` has all classes of `before`, in their places, and may have others behind them. What
        they add is as a run begins with it. Here the state may hold what a run begins with alone.

        Raises ConfigError if it holds other tensors, or of other shapes; or if the method can gain
        no classes.
        """
        self.check_gains(before.model.classes, now.model.classes)
        return in_front(self.card, state, self.init(before), self.init(now))

    def check_gains(self, had: int, has: int) -> None:
        """Refuse more classes than a run had (ConfigError) where the method cannot gain any."""
        if had != has and not self.gains_classes:
            raise ConfigError(
                f"method {self.card.name!r}: got {has} classes, expected the {had} that the run "
                "had: it cannot gain any. Restore the card, or start a new run"
            )

    def standardised_anew(self, state: State, start: Start) -> tuple[State, str]:
        """Return the state without what was made of samples as they were standardised before.

        And what that was, in words; "": nothing. Here the state is models, which go on.
        """
        return state, ""


def in_front(card: MethodCard, state: State, known: State, begun: State) -> State:
    """Return a state's tensors in the first entries of each axis of those in `begun`.

    `known` are such of a run like that of the state; raises ConfigError where these are others.
    """
    for name in sorted(state.keys() | known.keys()):
        got, expected = (
            str([*of[name].shape]) if name in of else "nothing" for of in (state, known)
        )
        if got != expected:
            raise ConfigError(
                f"method {card.name!r}: {name} of a run that is gone on from: got {got}, expected "
                f"{expected}"
            )
    return {name: tensor for name, tensor in widened(state, begun).items() if name in state}
