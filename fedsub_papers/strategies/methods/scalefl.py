"""ScaleFL, the server half (Ilhan et al. 2023): the first units of the first layers."""

from collections.abc import Mapping

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.strategies.parts.exits import ExitServer
from strategies.parts.sub_models import over_budget
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class ScaleFLServer(ExitServer):
    """Each smaller sub-model lies in all larger ones; an exit counts where it was trained."""

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average each number over those who hold it."""
        after, rows = super().aggregate(state, round, uploads)
        return after, rows + over_budget(round, uploads)
