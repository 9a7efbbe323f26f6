"""Downloads outside a round: what clients are tested with, and what a device would be sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fedsub_core.config.halves import ServerSettings
from fedsub_core.models.model import Model
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.memory import Memory
from strategies.rounds.round import HeldModels, Round
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


def tested_downloads(
    half: ServerHalf,
    state: State,
    round: Round,
    clients: Sequence[str],
    trained: Collection[str] | None = None,
) -> list[Bundle]:
    """Return the downloads that make each client's state the one that is tested.

    Where few are drawn for each round, who was in none yet is tested with what it would start from:
    all that the run has for it.

    Parameters
    ----------
    trained : who has trained in some round, where few are drawn; None: all are.
    """
    asked = list(clients)
    if not half.evaluates_download:
        asked = [] if trained is None else [c for c in clients if c not in trained]
    sent = half.tested_with(state, half.tested_as_in(round), asked) if asked else []
    bundles = dict(zip(asked, sent, strict=True))
    return [bundles.get(client, Bundle()) for client in clients]


def nobodys_downloads(
    half: ServerHalf, state: State, round: Round, clients: Sequence[str], capacity: float
) -> list[Bundle]:
    """Return the downloads of clients that hold as much, and have no models of their own.

    That tells how a size does that few or none trained.
    """
    held, nobodys = round.holding(capacity), half.of_nobody(state, round)
    return half.tested_with(nobodys, half.tested_as_in(held), clients)
