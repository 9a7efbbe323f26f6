"""Groups of clients who are alike: found once, by their models or updates, and a model for each.

What the methods with hard groups share: FedCLAR, FedCHAR and CA-AFP say when, by what and how
finely clients are divided; joining late, means by group and what is to be known of it stand here.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import inf
from statistics import median_low
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.errors import ConfigError
from fedsub_core.metrics import MetricRow
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.averaging import robust_mean
from strategies.parts.clipping import MOST_ADDED, moved
from strategies.parts.distances import cosine_distances, flattened
from strategies.parts.dividing import Labels
from strategies.parts.roster import Roster, RosterMemory
from strategies.rounds.context import Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State

log = logging.getLogger("fedsub")

#: Names in the state: who was divided, everybody's group, what each group was found by.
MEMBERS, GROUPS, CENTRES = "members", "groups", "centres"
_MODEL = "model."


def _named(models: State) -> State:
    return {_MODEL + name: tensor for name, tensor in models.items()}


class GroupedServer(ServerHalf):
    """FedAvg for everybody, and from some round on in each group.

    State: ``model.<name>`` [groups, ...], one group at first; once divided also ``members`` (a
    roster), ``groups`` int64 [members] and ``centres`` [groups, numbers], by which whoever comes
    later finds its group.
    """

    #: What clients are told apart by: the models they send, or the way to them.
    similarity: Literal["model", "update"] = "model"
    #: Whether groups start from the mean of that round's uploads of their members, or from all's.
    starts_apart = True

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._roster = RosterMemory()

    # What a method defines.

    @abstractmethod
    def divides_in(self, turn: Turn) -> int:
        """Return the round after whose uploads clients are divided."""

    @abstractmethod
    def divided(self, distances: NDArray[np.float64]) -> Labels:
        """Return everybody's group, of cosine distances [n, n]."""

    # What follows from it.

    def init(self, start: Start) -> State:
        """Return the clients' common start, as the model of the only group."""
        selection = str(getattr(self.hyper, "k_selection", ""))
        rule, _, k = selection.partition(":")
        clients = len(start.clients)
        if rule == "fixed" and int(k) > clients:
            raise ConfigError(
                f"{self.card.name}.k-selection: got {selection!r} of {clients} clients, expected "
                f"no more groups than clients. Ask for fewer, or wait for others: min-clients = {k}"
            )
        drawn = start.model.init(1, self.settings.rounds.seed)
        return {_MODEL + name: drawn[name] for name in start.sends if name in drawn}

    def wants_all(self, turn: Turn) -> bool:
        """Whether clients are to be divided after this round."""
        return turn.round == self.divides_in(turn)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody its group's model; who has none yet, the mean over all members."""
        models = self.models(state)
        bundles = {g: self.sent(state, g, models) for g in {self.group(state, c) for c in clients}}
        return [bundles[self.group(state, client)] for client in clients]

    def sent(self, state: State, group: int | None, models: State) -> Bundle:
        """Return the download of a group's members."""
        model = self.model_of(state, group, models)
        return Bundle(tensors={name: Floats(tensor.numpy()) for name, tensor in model.items()})

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average over all or by group; divide clients if it is time; let others join."""
        if MEMBERS in state:
            state = self._join(state, uploads)
            means = self._means(state, uploads, self.models(state))
        else:
            only = {name: tensor[0] for name, tensor in self.models(state).items()}
            means = {name: t.unsqueeze(0) for name, t in self.mean(uploads, only).items()}
            if round.number < self.divides_in(round.turn):
                return state | _named(means), []
            state, means = self._divide(state, uploads, means)
        state = state | _named(means)
        return state, self._group_rows(state, round.number)

    def models(self, state: State) -> State:
        """Return the groups' models, tensors ``[groups, ...]`` by their names in the model."""
        return {n.removeprefix(_MODEL): t for n, t in state.items() if n.startswith(_MODEL)}

    def count(self, state: State) -> int:
        """Return the number of groups."""
        return len(next(iter(self.models(state).values())))

    def group(self, state: State, client: str) -> int | None:
        """Return a client's group; None for one that has none yet."""
        if MEMBERS not in state:
            return 0
        place = self._roster.of(state[MEMBERS]).place.get(client)
        return None if place is None else int(state[GROUPS][place])

    def model_of(self, state: State, group: int | None, models: State) -> State:
        """Return the model that a group's members train from, or those without a group."""
        if group is not None:
            return {name: tensor[group] for name, tensor in models.items()}
        sizes = torch.bincount(state[GROUPS], minlength=self.count(state)).float()
        if not sizes.any():  # all members were forgotten
            sizes += 1
        shares = sizes / sizes.sum()
        return {n: torch.tensordot(shares, tensor, 1) for n, tensor in models.items()}

    def mean(self, uploads: Mapping[str, Bundle], start: State, longest: float = inf) -> State:
        """Return the mean of uploads that began at `start`, filtered as the run is configured.

        See :func:`~strategies.parts.averaging.robust_mean`.
        """
        return robust_mean(uploads, start, self.settings.robust, longest)

    def without(self, state: State, client: str) -> State:
        """Return the state without the client among the members.

        A group of nobody else gets the mean of the others' models: its own is the client's.
        """
        if MEMBERS not in state:
            return state
        roster = Roster.of(state[MEMBERS])
        kept = [i for i, other in enumerate(roster.clients) if other != client]
        left = roster.without(client).tensor()
        group, state = self.group(state, client), state | {GROUPS: state[GROUPS][kept]}
        if group is not None and kept and not (state[GROUPS] == group).any():
            own = self.models(state) | {CENTRES: state[CENTRES]}
            means = self.model_of(state, None, own)
            emptied = {name: tensor.clone() for name, tensor in own.items()}
            for name, tensor in emptied.items():
                tensor[group] = means[name]
            state |= {CENTRES: emptied.pop(CENTRES), **_named(emptied)}
        return state | {MEMBERS: left}

    def _divide(
        self, state: State, uploads: Mapping[str, Bundle], mean: State
    ) -> tuple[State, State]:
        """Return the state with everybody in a group, and the groups' models.

        `mean` is the model [1, ...] that is the mean over all.
        """
        features = torch.stack([self._feature(state, c, u) for c, u in uploads.items()])
        labels = torch.from_numpy(self.divided(cosine_distances(features).numpy()))
        count = int(labels.max()) + 1
        self._warn(count, len(labels))
        centres = torch.stack([features[labels == group].mean(0) for group in range(count)])
        members = Roster(tuple(uploads)).tensor()
        divided = state | {MEMBERS: members, GROUPS: labels, CENTRES: centres}
        start = self.models(state) if self.starts_apart else mean
        start = {name: tensor.expand(count, *tensor.shape[1:]) for name, tensor in start.items()}
        return divided, self._means(divided, uploads if self.starts_apart else {}, start)

    def _means(self, state: State, uploads: Mapping[str, Bundle], models: State) -> State:
        """Return the groups' models, each at the mean of its members' uploads, if there are some.

        `models` are those that the uploads began from.
        """
        after = {name: tensor.clone() for name, tensor in models.items()}
        of: dict[int | None, dict[str, Bundle]] = {}
        for client, upload in uploads.items():
            of.setdefault(self.group(state, client), {})[client] = upload
        starts = {g: {name: tensor[g] for name, tensor in models.items()} for g in of}
        # In a group of two nobody can tell who is the odd one: what is usual, all groups say.
        usual = [one for g, own in of.items() for one in moved(own, starts[g])]
        most = MOST_ADDED * median_low(usual) if usual else inf
        for group, own in of.items():
            longest = most if len(own) > 1 else inf
            for name, mean in self.mean(own, starts[group], longest).items():
                after[name][group] = mean
        return after

    def _warn(self, count: int, clients: int) -> None:
        become = "Local: no two clients share a model" if count == clients else "FedAvg"
        if clients > 1 and count in (1, clients):
            log.warning(
                "%s: dividing %d clients gave %d group%s: from here on it is %s",
                self.card.name,
                clients,
                count,
                "" if count == 1 else "s",
                become,
            )

    def _feature(self, state: State, client: str, upload: Bundle) -> Tensor:
        """Return the vector by which a client is told apart, float32 [numbers]."""
        start = self.model_of(state, self.group(state, client), self.models(state))
        sent = {name: torch.from_numpy(upload.floats(name).copy()) for name in start}
        if self.similarity == "update":
            sent = {name: tensor - start[name] for name, tensor in sent.items()}
        return flattened({name: tensor.unsqueeze(0) for name, tensor in sent.items()})[0]

    def _join(self, state: State, uploads: Mapping[str, Bundle]) -> State:
        """Put whoever uploads for the first time into the group whose centre is nearest."""
        roster = self._roster.of(state[MEMBERS])
        new = [client for client in uploads if client not in roster.place]
        if not new:
            return state
        centres = state[CENTRES]
        if self.similarity == "model":
            centres = flattened(self.models(state))
        groups = torch.zeros(len(roster.clients) + len(new), dtype=torch.int64)
        joined = roster.joined(new)
        roster.moved(state[GROUPS], groups, joined)
        for client in new:
            feature = self._feature(state, client, uploads[client]).unsqueeze(0)
            away = cosine_distances(torch.cat([feature, centres]))[0, 1:]
            groups[joined.place[client]] = int(away.argmin())
        return state | {MEMBERS: joined.tensor(), GROUPS: groups}

    def _group_rows(self, state: State, round: int) -> list[MetricRow]:
        roster = self._roster.of(state[MEMBERS])
        rows = [MetricRow(round, "", None, "groups", self.count(state))]
        each = zip(roster.clients, state[GROUPS].tolist(), strict=True)
        return rows + [MetricRow(round, client, None, "group", group) for client, group in each]
