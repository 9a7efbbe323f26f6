"""FlexFL, the server half (Chen et al. 2024): widths of layers from how silent they are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from fedsub_core.metrics import MetricRow
from fedsub_core.models.units import Units
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.methods.flexfl import APOZ, share_of
from fedsub_papers.models.pools import widths_for
from fedsub_papers.strategies.parts.slices import SliceServer
from strategies.parts.averaging import shares
from strategies.parts.sub_models import over_budget
from strategies.rounds.context import Sender
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class FlexFLServer(SliceServer):
    """State: the global tensors; from the first round on ``apoz`` [hidden layers]."""

    def participants(self, state: State, round: Round) -> list[str]:
        """Return the clients that train: at first those that hold the whole model, if any."""
        asked = super().participants(state, round)
        if APOZ in state:
            return asked
        return [client for client in asked if client not in round.narrow] or asked

    def slices(self, state: State, round: Round, clients: Sequence[str]) -> dict[str, Units]:
        """Return the first units, as many of each layer as the client's share leaves."""
        found = dict[float, Units]()
        held = {client: self._share(state, round, client) for client in clients}
        for share in set(held.values()):
            counts = self.sizes(round)
            if share < 1:
                counts = widths_for(round.model, state[APOZ].tolist(), share)
            found[share] = {name: np.arange(count) for name, count in counts.items()}
        return {client: found[share] for client, share in held.items()}

    def _share(self, state: State, round: Round, client: str) -> float:
        """Return which share of the numbers a client is sent: all before zeros are known."""
        if APOZ not in state or client not in round.narrow:
            return 1.0
        return share_of(self.hyper.shares(), round.capacities[client])

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody its units, and the zeros that the pool follows from."""
        sent = super().downloads(state, round, clients)
        if APOZ not in state:
            return sent
        zeros, made = {APOZ: Floats(state[APOZ].numpy())}, dict[int, Bundle]()
        for one in sent:
            made.setdefault(id(one), replace(one, tensors={**one.tensors, **zeros}))
        return [made[id(one)] for one in sent]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand the units that were sent, and shares of zeros where they are asked for."""
        super().check(state, round, sender, upload)
        if (APOZ in upload.tensors) == (APOZ in round.sent[sender.client].tensors):
            got = "some" if APOZ in upload.tensors else "none"
            raise sender.refuse(APOZ, got, "shares of zeros where they were asked for, else none")
        if APOZ in upload.tensors:
            zeros = upload.floats(APOZ)
            if not (zeros.min() >= 0 and zeros.max() <= 1):
                raise sender.refuse(APOZ, zeros.tolist(), "shares from 0 to 1")

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the models; in the first round shares of zeros, too."""
        after, rows = super().aggregate(state, round, uploads)
        said = [one.floats(APOZ) for one in uploads.values() if APOZ in one.tensors]
        if APOZ not in state and said:
            counts = [one.examples for one in uploads.values()]
            by = shares(counts, self.settings.robust.most_examples)
            mean = sum(share * zeros for share, zeros in zip(by, said, strict=True))
            after[APOZ] = torch.from_numpy(np.asarray(mean, np.float32))
        return after, rows + over_budget(round, uploads)
