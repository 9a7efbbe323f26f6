"""Local training, the server half: count the clients, send nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsub_core.models.chain import Model
from fedsub_core.wire.bundles import Download, Upload
from strategies.rounds.strategy import PersonalizedStrategy, State


class LocalStrategy(PersonalizedStrategy):
    """No communication: what every person reaches alone."""

    def init(self, model: Model) -> State:
        """Nothing to keep."""
        return {}

    def downloads(self, state: State, clients: Sequence[str], model: Model) -> list[Download]:
        """Nothing to send."""
        return [Download()] * len(clients)

    def aggregate(
        self, state: State, uploads: Mapping[str, Upload], round: int, model: Model
    ) -> State:
        """Nothing to aggregate."""
        return state
