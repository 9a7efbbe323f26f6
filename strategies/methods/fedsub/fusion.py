"""FedSub's subnetwork fusion: what each client's unit rows become, one layer at a time.

Source: FedSub (Campana and Delmastro, journal version), eq. 6-10, and eq. 6-7 of its first
version for ``overlapping-additive``. All five fusions are one formula: unit j of client u becomes
sum_y choice[u, y, j] * (sum of the rows in its cluster of class y, each by its weight), so that a
cluster's sum is made once. They differ in what is chosen and in which units they replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from strategies.methods.fedsub.membership import ClusterWeights, product
from strategies.methods.fedsub.robust import RowMean, mixed

#: Rows of one chunk of units, float32 [n, units, width], stay below this many bytes.
CHUNK_BYTES = 2**21


def fuse(
    weights: ClusterWeights, rows: Tensor, masks: Tensor, mean: RowMean | None = None
) -> tuple[Tensor, Tensor]:
    """Fuse one layer's subnetworks for every client.

    Parameters
    ----------
    weights : ClusterWeights
        Made once per round by ``cluster_weights``; it says which fusion it is for.
    rows : float32 [n, units, fan_in + 1]
        Each client's selected rows, weights then bias; finite everywhere, zero where a client
        selected the unit in no class.
    masks : bool [n, classes, units]
        Units each class of each client selected; read only where the client contributes.
    mean : callable, optional
        Instead of the weighted mean, what a cluster makes of its members' rows. Not for
        ``leadership``, which takes one member's.

    Returns
    -------
    fused : float32 [n, units, fan_in + 1]
        New rows; zero where `replaced` is false.
    replaced : bool [n, units]
        Units whose row the client replaces; it keeps its own elsewhere.

    Notes
    -----
    ``avg`` (eq. 6, 7) and ``leadership`` (eq. 8), by the reading of a unit that somebody did not
    select. Under ``own`` it is left out of the mean over members; in the mean over clusters the
    client's own row stands for a cluster without it, and for a class for which it did not select
    the unit. Under ``held`` it is left out of both means.

    ``overlapping`` (eq. 9, 10): replaced where the client selected the unit in all its own
    classes and all its clusters hold it. A cluster holds a unit if every contributing member
    selected it. ``overlapping-any``: the mean over those of its clusters that hold it.

    ``overlapping-additive`` (first version, eq. 6, 7): own row plus the mean over the clusters
    that hold the unit, where the client selected it in any class; then scaled so that the norm
    is what it was. The server knows only uploaded rows, so the norm is that of the layer's
    replaced rows, weights and biases together: without the biases these would double each round.
    """
    # Members that contribute nothing must not count, whatever their mask says.
    selected = masks & weights.contributes[:, :, None]
    return _FUSIONS[weights.fusion](weights, rows, selected, mean)


def changed(fused: Tensor, rows: Tensor, replaced: Tensor) -> Tensor:
    """Return a mask of the `replaced` rows that differ from one's own, bool [n, units]."""
    if (some := _columns(replaced)) is None:
        return replaced & (fused != rows).any(-1)
    new, old = fused.index_select(1, some), rows.index_select(1, some)
    theirs = replaced.index_select(1, some) & (new != old).any(-1)
    return torch.zeros_like(replaced).index_copy_(1, some, theirs)


def _averaged(
    weights: ClusterWeights, rows: Tensor, selected: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """Eq. 6-8: u takes sum_y choice[u, y, j] * sum_v weight[v, y] * selected[v, y, j] * row.

    Weights sum to 1 over the members that hold the unit. Under ``held`` the choice is over clusters
    that do; under ``own`` over all, and the client's own row takes the place of the others.
    """
    share = weights.summed(weights.weight[:, :, None] * selected)
    held, replaced = share > 0, (share > 0).any(1)
    every = weights.in_cluster[:, :, None].expand_as(held)
    over = every if weights.reading == "own" else held
    choice = over / over.sum(1, keepdim=True).clamp(min=1).double()
    own = choice.new_zeros(held[:, 0].shape)
    if weights.reading == "own":
        # Who only receives has no subnetwork of the class that could lack the unit.
        theirs = held & (selected | ~weights.contributes[:, :, None])
        own, choice = (choice * ~theirs).sum(1), choice * theirs
        # The server knows a client's row only if the client selected it.
        replaced = theirs.any(1) & ((own == 0) | selected.any(1))
    if mean is not None and weights.fusion != "leadership":
        fused = mixed(weights, rows, selected, choice, mean, holders=True)
        fused += own[:, :, None].to(rows.dtype) * rows
    else:
        choice = torch.where(held, choice / share, 0.0)
        fused = taken(weights, rows, choice, selected, own)
    return fused.mul_(replaced[:, :, None]), replaced


def _overlapping(
    weights: ClusterWeights, rows: Tensor, selected: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """Eq. 9, 10: where all of u's clusters hold a unit, the mean over these is that over all."""
    held = _held(weights, selected)
    own = selected | ~weights.contributes[:, :, None]
    both = own & (held | ~weights.in_cluster[:, :, None])
    # A client that selected nothing shares no relevant unit with anyone.
    taking_part = weights.contributes.any(1) & weights.in_cluster.any(1)
    # NumPy's takes a tenth of the time of PyTorch's.
    replaced = torch.from_numpy(both.numpy().all(1)) & taking_part[:, None]
    return _held_mean(weights, rows, selected, held, replaced, mean), replaced


def _overlapping_any(
    weights: ClusterWeights, rows: Tensor, selected: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """Replace units by the mean over the clusters of u that hold unit j."""
    held = _held(weights, selected)
    replaced = held.any(1)
    return _held_mean(weights, rows, selected, held, replaced, mean), replaced


def _overlapping_additive(
    weights: ClusterWeights, rows: Tensor, selected: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """Own row plus the mean over the clusters that hold the unit, at the norm it had."""
    theirs, replaced = _overlapping_any(weights, rows, selected, mean)
    replaced &= selected.any(1)
    before = rows * replaced[:, :, None]
    after = before + theirs * replaced[:, :, None]
    # Norms in float64: a layer has enough rows for float32 sums of squares to drift.
    was, now = (
        torch.linalg.vector_norm(r, dim=(1, 2), dtype=torch.float64) for r in (before, after)
    )
    # Rows that cancelled out to zero have no direction to scale: the client keeps its own.
    replaced &= (now > 0)[:, None]
    factor = torch.where(now > 0, was / now, 0.0).to(rows.dtype)
    return after.mul_(factor[:, None, None]), replaced


def _held(weights: ClusterWeights, selected: Tensor) -> Tensor:
    """Return whether the cluster of class y that u is in holds unit j, bool [n, classes, units]."""
    # A sum of ones and zeros, which float32 counts exactly up to 2**24 members.
    missing = weights.summed((weights.contributes[:, :, None] & ~selected).float())
    return (missing == 0) & weights.in_cluster[:, :, None]


def _held_mean(
    weights: ClusterWeights,
    rows: Tensor,
    selected: Tensor,
    held: Tensor,
    wanted: Tensor,
    mean: RowMean | None,
) -> Tensor:
    """Return the mean over those of u's clusters that hold a unit, zeros where not `wanted`.

    `held` is what :func:`_held` returns, `wanted` bool [n, units].
    """
    some = _columns(wanted)
    if some is not None:  # nothing is made of units that nobody wants
        # NumPy's zeros take no memory before they are written to.
        fused = torch.from_numpy(np.zeros(rows.shape, np.float32))
        by_class = selected.index_select(2, some), held.index_select(2, some)
        own, wanted = rows.index_select(1, some), wanted.index_select(1, some)
        return fused.index_copy_(1, some, _held_mean(weights, own, *by_class, wanted, mean))
    share = wanted / held.sum(1).clamp(min=1).double()
    if mean is not None:
        return mixed(weights, rows, selected, held * share[:, None], mean)
    fused = _alone(weights, held * share[:, None], rows)
    sums, takes, who = weights.products
    if not len(who):
        return fused
    taken_by = share[who, :, None].to(rows.dtype)
    whom = who if len(who) < len(rows) else slice(None)  # who are all is no copy
    holds = held.flatten(0, 1)[weights.together.heads]
    for units in chunks(rows):
        sum_ = product(sums, rows[:, units]).mul_(holds[:, units, None])
        fused[whom, units] += product(takes, sum_).mul_(taken_by[:, units])
    return fused


def _columns(wanted: Tensor) -> Tensor | None:
    """Return the units that anybody wants, None: all; `wanted` bool [n, units]."""
    some = wanted.any(0)
    return None if some.all() else some.nonzero().flatten()


def taken(
    weights: ClusterWeights, rows: Tensor, choice: Tensor, gives: Tensor, own: Tensor
) -> Tensor:
    """Return own * row + sum_y choice * sum of the rows in u's cluster, float32 [n, units, width].

    Parameters
    ----------
    rows : float32 [n, units, width].
    choice : float64 [n, classes, units].
    gives : bool [n, classes, units], whose rows count in the sum.
    own : float64 [n, units].
    """
    fused = _alone(weights, choice * gives, rows, own)
    for y, c in enumerate(weights.shared):
        who, label, adds, inside = c.carried
        weight = weights.weight[who, y, None].to(rows.dtype) * gives[who, y]
        share = (choice[who, y].to(rows.dtype) * inside)[:, :, None]
        for units in chunks(rows) if len(c.members) else ():
            given = rows[who, units] * weight[:, units, None]
            sum_ = product(adds, given)
            fused[who, units] += sum_.index_select(0, label).mul_(share[:, units])
    return fused


def _alone(
    weights: ClusterWeights, choice: Tensor, rows: Tensor, own: Tensor | None = None
) -> Tensor:
    """Return each client's part of its own row, float32 [n, units, width].

    `own` of it, and its `choice` [n, classes, units] of every cluster in which it is alone. Added
    up in float64, so that who is alone in all gets exactly 1 of its row.
    """
    mine = torch.zeros(rows.shape[:2], dtype=torch.float64) if own is None else own.clone()
    for y, weight in enumerate(weights.alone.unbind(1)):
        mine += choice[:, y] * weight[:, None]
    return mine[:, :, None].to(rows.dtype) * rows


def chunks(rows: Tensor) -> Iterator[slice]:
    """Yield slices of units so that rows [n, units of one, width] stay below CHUNK_BYTES."""
    n, units, width = rows.shape
    step = max(1, CHUNK_BYTES // (4 * n * width))
    yield from (slice(start, start + step) for start in range(0, units, step))


_Fusion = Callable[[ClusterWeights, Tensor, Tensor, RowMean | None], tuple[Tensor, Tensor]]
_FUSIONS: dict[str, _Fusion] = {
    "avg": _averaged,
    "leadership": _averaged,
    "overlapping": _overlapping,
    "overlapping-any": _overlapping_any,
    "overlapping-additive": _overlapping_additive,
}
