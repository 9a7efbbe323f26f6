"""What people are sent: everybody's sums, equations and groups, of the features that each has."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch

from fedsub_core.method_parts import ridge_tensors as tensors
from fedsub_core.method_parts.ridge_tensors import EVERYBODY, HELD, HOLDERS, POOLED
from fedsub_core.methods.fedsub_ridge import FedSubRidgeHyperparameters
from fedsub_core.wire.bundles import Floats, Part
from strategies.methods.fedsub_ridge.everybody import by_features, nobodys, over_all, without_sums
from strategies.methods.fedsub_ridge.groups import members
from strategies.methods.fedsub_ridge.people import facts, having, holders, people
from strategies.methods.fedsub_ridge.pooling import counts_as, pooled, sum_over
from strategies.methods.fedsub_ridge.release import VERSIONS, name_of, parts, released
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

Tensors = dict[str, Part]


def pooled_anew(state: State, hyper: FedSubRidgeHyperparameters, bound: float) -> State:
    """Return the part of the state that is everybody's equations, and the names of it all.

    `bound` is :func:`~strategies.methods.fedsub_ridge.pooling.counts_as`'s.
    """
    size, count = tensors.equations(hyper), tensors.candidates(hyper)
    mean = torch.from_numpy(pooled(state, counts_as(state, bound), count, size))
    sums = [array for s in by_features(state).values() for array in (s.gram, s.cross)]
    of_sums = name_of(*sums) if people(state) else 0
    of_all = name_of(np.array(of_sums), mean.numpy()) if of_sums else 0
    if hyper.noise:  # equations stay on the server, so new ones are no news
        of_all = of_sums
    return {POOLED: mean, VERSIONS: torch.tensor([of_sums, of_all])}


def sent_to(
    state: State,
    round: Round,
    clients: Sequence[str],
    hyper: FedSubRidgeHyperparameters,
    bound: float,
) -> dict[str, Tensors]:
    """Return the tensors that each of `clients` is sent, by client.

    Whose device does not know some classes is sent sums over those who have no sample of these:
    of others' sums the products are of all their samples, whatever the class.
    """
    most, found = round.model.classes, dict[str, Tensors]()
    known = {client: round.knows.get(client, most) for client in clients}
    for classes in sorted(set(known.values())):
        some = [client for client in clients if known[client] == classes]
        left = state
        if beyond := having(state, classes):
            left = without_sums(state, beyond, bound)
            left |= {POOLED: pooled_anew(left, hyper, bound)[POOLED]}
        common = pooled_part(left, hyper.noise)
        if people(left) and not hyper.noise:
            *of_each, there = holders(left)
            common[HOLDERS] = Floats(np.array([*of_each[:classes], there], np.float32))
        found |= _sums_of(left, round, some, hyper, bound, common)
    return found


def pooled_part(state: State, noise: float) -> Tensors:
    """Return everybody's equations as they are sent; none where sums have noise."""
    if noise or not state[POOLED].any():
        return {}
    return {POOLED: Floats(state[POOLED].float().numpy())}


def _sums_of(
    state: State,
    round: Round,
    clients: Sequence[str],
    hyper: FedSubRidgeHyperparameters,
    bound: float,
    common: Tensors,
) -> dict[str, Tensors]:
    """Return everybody's sums, what of them is the client's own, `common`, and sums of groups."""
    counted, of_sums = counts_as(state, bound), int(state[VERSIONS][0])
    groups, everybodys = members(state, hyper), released(state, hyper.noise)
    # People with as many features, and members of one group, are sent the same arrays.
    everybody: dict[int, Tensors] = {}
    sums: dict[tuple[int, tuple[str, ...]], Tensors] = {}
    found = {}
    for client in clients:
        one, features = facts(state, client), prod(round.held_by(client).input_shape)
        if features not in everybody:
            everybody[features] = parts(EVERYBODY, over_all(everybodys, features))
        inside = (0, 0, 0)
        if one is not None:
            inside = one.samples, counted[client], int(one.answered == of_sums)
        own = {HELD: Floats(np.array(inside, np.float32)), **everybody[features], **common}
        for i, group in enumerate(groups.get(client, ())):
            if not group:
                continue
            if (features, group) not in sums:
                like = nobodys(features, round.model.classes)
                sums[features, group] = parts("", sum_over(state, group, counted, like))
            own |= {f"group{i}{name}": part for name, part in sums[features, group].items()}
        found[client] = own
    return found
