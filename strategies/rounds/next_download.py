"""What a run would send a device next, worked out from its saved state alone: nobody is asked."""

from __future__ import annotations

from fedsub_core.config.halves import ServerSettings
from fedsub_core.models.model import Model
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.held_models import HeldModels
from strategies.rounds.memory import Memory
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State


def next_download(
    settings: ServerSettings, finished: int, saved: State, client: str, capacity: float
) -> tuple[Model, Bundle]:
    """Return the model that a client's device would hold at a capacity, and what it would be sent.

    Parameters
    ----------
    finished : the last round that was finished.
    saved : the server's state after it (:meth:`PersonalizedStrategy.lasting_state`).
    """
    half = ServerHalf.of(settings)
    memory, kept = Memory.split(saved)
    assert memory.agreed is not None
    classes = memory.agreed.classes
    turn = Turn(finished + 1, settings.rounds.rounds, settings.rounds.seed)
    state, _ = half.resumed(kept, turn)
    models = HeldModels.of(settings, half.card, memory.agreed.shape, len(classes))
    round = Round(turn, models, {client: capacity}, (client,), classes=classes)
    (sent,) = half.tested_with(state, round, [client])
    return models.at(capacity), sent
