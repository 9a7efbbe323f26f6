"""SubFLOT, the server half: sub-models by optimal transport to what each client trained last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.models.units import Units, placements, units_of
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.strategies.methods.feddrop import drawn
from fedsub_papers.strategies.methods.fedmp import norms
from fedsub_papers.strategies.parts.alignment import aligned, check_groups, check_plan
from strategies.parts.averaging import robust_mean
from strategies.parts.sub_models import Counts, SubModelServer, best
from strategies.rounds.context import Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

HISTORY = "history/"


class SubFLOTServer(SubModelServer):
    """State: the global tensors, and what each client sent last, ``history/<client>/<tensor>``."""

    gains_classes = False

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        check_plan(self.hyper.plan == "exact")
        #: What follows from a state for each client and what it holds: what is tested after a round
        #: is what the next one begins with, and plans take their time.
        self._made: tuple[State, dict[tuple[str, int], Bundle]] = ({}, {})

    def init(self, start: Start) -> State:
        """Return the global tensors before the first round; raises where units are not known."""
        check_groups(start.model.unit_groups, start.model.parameter_shapes)
        return super().init(start)

    def units(self, state: State, round: Round, client: str, counts: Counts) -> Units:
        """Return the first units: whose history is not known yet is sent them."""
        return {group: np.arange(count) for group, count in counts.items()}

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody the global model, its units brought to the client's last ones."""
        if self._made[0] is not state:
            self._made = state, {}
        made = self._made[1]
        keys = {client: (client, id(round.held_by(client))) for client in clients}
        new = [client for client in clients if keys[client] not in made]
        plain = super().downloads(globals_of(state), round, new)
        for client, prefix in zip(new, plain, strict=True):
            made[keys[client]] = self._transported(state, round, client) or prefix
        return [made[keys[client]] for client in clients]

    def _transported(self, state: State, round: Round, client: str) -> Bundle | None:
        """Return the client's sub-model, eq. 3 to 6; None if it has no history of this size."""
        last, held = self._proxy(state, round, client), round.held_by(client)
        shapes = {name: tuple(tensor.shape) for name, tensor in last.items()}
        if not self.hyper.otp or shapes != dict(held.parameter_shapes):
            return None
        near, share = self._aligned(state, last, round.model, held), self.hyper.alpha
        share = share if self.hyper.alpha_of == "global" else 1 - share
        return Bundle(tensors=parts({n: share * near[n] + (1 - share) * last[n] for n in near}))

    def _proxy(self, state: State, round: Round, client: str) -> State:
        """Return what the global model is brought to: what the client sent last, or a part of it.

        {} where it sent nothing yet.
        """
        if self.hyper.proxy == "history":
            return history(state, client)
        whole, groups = globals_of(state), round.model.unit_groups
        counts = {
            name: len(own)
            for name, own in units_of(groups, round.held_by(client).tensor_shapes).items()
        }
        chosen: Units = {name: np.arange(count) for name, count in counts.items()}
        if self.hyper.proxy == "magnitude":
            by_name = {group.name: group for group in groups}
            chosen = {n: best(norms(by_name[n], whole), count) for n, count in counts.items()}
        elif self.hyper.proxy == "random":
            chosen = drawn(counts, self.sizes(round), round.turn, client)
        places = placements(groups, round.model.parameter_shapes, chosen)
        return {name: places[name].take(tensor) for name, tensor in whole.items()}

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the uploads, each brought back to the units of the old global model, eq. 9."""
        old, robust = globals_of(state), self.settings.robust
        own = {
            client: {n: torch.from_numpy(upload.floats(n).copy()) for n in old}
            for client, upload in uploads.items()
        }
        placed = {c: self.placed(state, round, c, upload) for c, upload in uploads.items()}
        if self.hyper.ota:
            placed = {
                client: replace(uploads[client], tensors=parts(near))
                for client, tensors in own.items()
                for near in [self._aligned(tensors, old, round.held_by(client), round.model)]
            }
        after = state | robust_mean(placed, old, robust, rule=self.rule)
        for client, tensors in own.items():
            after = self.without(after, client)
            after |= {f"{HISTORY}{client}/{name}": tensor for name, tensor in tensors.items()}
        return after, self.counted(round, uploads, placed)

    def without(self, state: State, client: str) -> State:
        """Return the state without what the client sent last."""
        prefix = f"{HISTORY}{client}/"
        return {name: tensor for name, tensor in state.items() if not name.startswith(prefix)}

    def of_nobody(self, state: State, round: Round) -> State:
        """Return the state in which nobody sent anything: all are sent the first units."""
        return globals_of(state)

    def _aligned(
        self, source: State, target: State, model: Model, like: Model
    ) -> dict[str, Tensor]:
        """Return a model's tensors, its units brought to those of another."""
        exact, keep = self.hyper.plan == "exact", self.hyper.inputs == "sum"
        return aligned(source, target, model.unit_groups, like.unit_groups, keep, exact)


def parts(tensors: Mapping[str, Tensor]) -> dict[str, Floats]:
    """Return whole tensors as parts of a bundle."""
    return {name: Floats(tensor.numpy()) for name, tensor in tensors.items()}


def globals_of(state: State) -> State:
    """Return the global tensors."""
    return {name: tensor for name, tensor in state.items() if not name.startswith(HISTORY)}


def history(state: State, client: str) -> dict[str, Tensor]:
    """Return the tensors that a client sent last; {} where it sent nothing yet."""
    prefix = f"{HISTORY}{client}/"
    return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
