"""CA-AFP, the server half: FedCHAR's groups, and in each a mask that moves."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.method_parts.layers import is_weight
from fedsub_core.metrics import MetricRow
from fedsub_core.seeds import generator
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.masks import share_of
from fedsub_papers.methods.caafp import LABELS, adjustments, divides_in, pruned
from fedsub_papers.methods.sparse import GRADIENT
from fedsub_papers.strategies.parts.pruning import (
    START,
    Weights,
    entropy,
    moved,
    moves,
    scores,
    target_sparsity,
)
from fedsub_papers.strategies.parts.sparse import other_masks, packed, sparsity_rows, whole
from strategies.parts.dividing import Labels, divided_into
from strategies.parts.grouping import MEMBERS, GroupedServer
from strategies.parts.roster import Roster
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

_MASK, _LAST, _ENTROPY = "mask.", "last.", "entropy"


class CAAFPServer(GroupedServer):
    """FedCHAR's, with masks.

    State, beside the groups': ``mask.<weight>`` bool [groups, ...]; once divided ``entropy``
    [groups] and ``last.<weight>`` [members, ...], what each member sent last.
    """

    similarity = "update"
    starts_apart = False

    def init(self, start: Start) -> State:
        """Return the common start, dense."""
        return self._masked(super().init(start))

    def divides_in(self, turn: Turn) -> int:
        """See :class:`GroupedServer`."""
        return divides_in(self.hyper, turn.rounds)

    def divided(self, distances: NDArray[np.float64]) -> Labels:
        """Cut the hierarchy at the configured number of groups."""
        return divided_into(distances, self.hyper.linkage, self.hyper.k_selection)

    def sent(self, state: State, group: int | None, models: State) -> Bundle:
        """Return a group's sparse model; who has no group yet gets a dense one."""
        return packed(self.model_of(state, group, models), self.masks(state, group))

    def participants(self, state: State, round: Round) -> list[str]:
        """Return the drawn clients; with `members_per_round`, so many of each group, ascending."""
        count = self.hyper.members_per_round
        if not count or MEMBERS not in state or self.wants_all(round.turn):
            return super().participants(state, round)
        stream = generator(round.turn.seed, "", round.number, "members of each group")
        group = {client: self.group(state, client) for client in round.present}
        asked = [client for client, of in group.items() if of is None]
        for number in range(self.count(state)):
            own = [client for client, of in group.items() if of == number]
            order = torch.randperm(len(own), generator=stream).tolist()
            asked += [own[place] for place in order[:count]]
        return sorted(asked)

    def masks(self, state: State, group: int | None) -> State:
        """Return a group's masks, by the names of the weights."""
        found = {n.removeprefix(_MASK): t for n, t in state.items() if n.startswith(_MASK)}
        if group is None:
            return {name: torch.ones_like(mask[0]) for name, mask in found.items()}
        return {name: mask[group] for name, mask in found.items()}

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand the mask that was sent, and what this round needs beside the model."""
        masks = self.masks(state, self.group(state, sender.client))
        if other := other_masks(upload, masks):
            raise sender.refuse(f"masks of {other}", "other weights", "those it was sent")
        moving = self._needs_gradients and round.number in adjustments(
            self.hyper, round.turn.rounds
        )
        wanted = {GRADIENT + name for name in masks if moving}
        counted = self.hyper.label_counts and self.wants_all(round.turn)
        wanted |= {LABELS} if counted else set()
        beside = {n for n in upload.tensors if n.startswith(GRADIENT) or n == LABELS}
        if beside != wanted:
            raise sender.refuse("beside the model", sorted(beside), sorted(wanted))
        if counted:
            counts = upload.floats(LABELS)
            if (counts < 0).any() or counts.sum() != upload.examples:
                expected = f"counts that sum to {upload.examples}"
                raise sender.refuse(LABELS, counts.tolist(), expected)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average by group under its mask; remember members' weights; move masks if it is time."""
        dense = {client: whole(upload) for client, upload in uploads.items()}
        before = state
        state, rows = super().aggregate(state, round, dense)
        if MEMBERS not in state:
            return self._masked(state), rows
        if MEMBERS not in before:
            state = self._divided(state, round, dense)
        state = self._remembered(before, state, dense)
        if round.number in adjustments(self.hyper, round.turn.rounds):
            for group in range(self.count(state)):
                state = self._adjusted(state, round, group, dense)
        state = self._masked(state)
        every = {n.removeprefix(_MASK): t for n, t in state.items() if n.startswith(_MASK)}
        return state, rows + sparsity_rows(round.number, self.models(state), every)

    def without(self, state: State, client: str) -> State:
        """Return the state without the client among the members, and without what it sent."""
        if MEMBERS not in state:
            return state
        kept = [i for i, one in enumerate(Roster.of(state[MEMBERS]).clients) if one != client]
        last = {name: tensor[kept] for name, tensor in state.items() if name.startswith(_LAST)}
        return super().without(state, client) | last

    @property
    def _needs_gradients(self) -> bool:
        return bool(self.hyper.schedule == "iterative")

    def _divided(self, state: State, round: Round, uploads: Mapping[str, Bundle]) -> State:
        """Return the state with a dense mask and the label entropy of each group."""
        count, classes = self.count(state), round.model.classes
        found = torch.full((count,), float(np.log(classes)))
        if self.hyper.label_counts:
            for group in range(count):
                own = [u for c, u in uploads.items() if self.group(state, c) == group]
                found[group] = entropy(torch.tensor(sum(u.floats(LABELS) for u in own)))
        without = {name: t for name, t in state.items() if not name.startswith(_MASK)}
        return self._masked(without) | {_ENTROPY: found}

    def _remembered(self, before: State, state: State, uploads: Mapping[str, Bundle]) -> State:
        """Return the state with the weights that members sent last."""
        roster = self._roster.of(state[MEMBERS])
        old = Roster.of(before[MEMBERS]) if MEMBERS in before else Roster(())
        for name in self.masks(state, 0):
            shape = state[f"model.{name}"].shape[1:]
            last = torch.zeros(len(roster.clients), *shape)
            if old.clients:
                old.moved(before[_LAST + name], last, roster)
            for client, upload in uploads.items():
                last[roster.place[client]] = torch.from_numpy(upload.floats(name))
            state = state | {_LAST + name: last}
        return state

    def _adjusted(
        self, state: State, round: Round, group: int, uploads: Mapping[str, Bundle]
    ) -> State:
        """Return the state after a group's masks moved."""
        hyper, rounds = self.hyper, adjustments(self.hyper, round.turn.rounds)
        own = [u for client, u in uploads.items() if self.group(state, client) == group]
        rows = torch.nonzero(state["groups"] == group).squeeze(1)
        if not len(rows) or (self._needs_gradients and not own):
            return state  # nobody is there to say what its weights are worth
        target = hyper.fixed_sparsity
        if target is None:
            size = float(state[_ENTROPY][group])
            target = target_sparsity(size, round.model.classes, len(rows))
        start = START if hyper.fixed_sparsity is None else target
        left = len(rounds) - rounds.index(round.number)
        of = Weights(hyper.magnitude, hyper.coherence_weight, hyper.consistency)
        names = pruned(round.model, hyper)
        own_masks = {n: mask for n, mask in self.masks(state, group).items() if n in names}
        for name, mask in own_masks.items():
            gradients = self._gradients(own, name) if self._needs_gradients else None
            score = scores(
                state[f"model.{name}"][group],
                state[_LAST + name][rows],
                gradients,
                of,
                hyper.coherence == "relative",
            )
            if gradients is None:
                new = moved(mask, score, score, share_of(mask.numel(), target), 0)
            else:
                counts = moves(mask.numel(), int(mask.sum()), target, start, left)
                new = moved(mask, score, gradients.mean(0).abs(), *counts)
            masks = state[_MASK + name].clone()
            masks[group] = new
            state = state | {_MASK + name: masks}
        return state

    @staticmethod
    def _gradients(uploads: list[Bundle], name: str) -> Tensor:
        return torch.stack([torch.from_numpy(u.floats(GRADIENT + name).copy()) for u in uploads])

    def _masked(self, state: State) -> State:
        """Return the state whose models are zero where masked out; without masks, dense ones."""
        weights = {n: t for n, t in self.models(state).items() if is_weight(t.shape[1:])}
        ones = {n: torch.ones_like(t, dtype=torch.bool) for n, t in weights.items()}
        masks = {name: state.get(_MASK + name, one) for name, one in ones.items()}
        held = {f"model.{n}": t * masks[n] for n, t in weights.items()}
        return state | held | {_MASK + name: mask for name, mask in masks.items()}
