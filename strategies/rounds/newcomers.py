"""What a device is sent that joins a finished run: nothing of the run changes by it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.agreement import Agreement
from strategies.rounds.context import SummedPeople
from strategies.rounds.memory import Memory
from strategies.rounds.round import HeldModels, Round
from strategies.rounds.server_half import ServerHalf, State

#: The id of a device of nobody whom the run knows.
NOBODY = ""


class Newcomers:
    """The downloads of devices that join after a run's last round.

    Parameters
    ----------
    settings : of the method's server half.
    finished : the last round that was finished.
    saved : the server's state after it (:meth:`PersonalizedStrategy.lasting_state`).
    """

    def __init__(
        self, settings: ServerSettings, finished: int, saved: Mapping[str, Tensor]
    ) -> None:
        self._half = ServerHalf.of(settings)
        memory, kept = Memory.split(saved)
        assert memory.agreed is not None
        self.agreed: Agreement = memory.agreed
        classes = self.agreed.classes
        turn = Turn(finished + 1, settings.rounds.rounds, settings.rounds.seed)
        models = HeldModels.of(settings, self._half.card, self.agreed.shape, len(classes))
        self._round = Round(turn, models, classes=classes)
        self._state, _ = self._half.resumed(kept, turn)

    @cached_property
    def summed(self) -> SummedPeople:
        """The people whose sums are sent; a ConfigError if the method solves nothing of sums."""
        return self._half.summed_people(self._state, self._round)

    def download(self, client: str = NOBODY, replaces: bool = False) -> Bundle:
        """Return the download of a device that has nothing of the run's yet.

        Parameters
        ----------
        client : whose device it is. Somebody's whom the run knows is told, as in any round, which
            of its samples the sums hold.
        replaces : whether they are taken out of the sums before.

        Raises ConfigError if they are to be taken out, and sums without them may not be released.
        Raises RunError if nobody can take them out: the sums are secure ones.
        """
        change = self._half.with_other_samples if replaces else self._half.with_nothing
        state: State = change(self._state, client)
        (sent,) = self._half.downloads(state, self._round, [client])
        return sent
