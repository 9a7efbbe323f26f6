"""FedSub's subnetwork fusion: what each client's unit rows become, one layer at a time.

Source: FedSub (Campana and Delmastro, journal version), eq. 6-10, and eq. 6-7 of its first
version for ``overlapping-additive``. All five fusions are one formula: unit j of client u becomes
sum_v B[j, u, v] * rows[v, j]. They differ in the coefficients B and in which units they replace.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from strategies.fedsub.membership import ClusterWeights
from strategies.fedsub.robust import RowMean, mixed

# Coefficients of one chunk of units, [units, n, n] float64, stay below this many bytes.
CHUNK_BYTES = 2**26


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
    ``avg`` (eq. 6, 7) and ``leadership`` (eq. 8), by the reading of what a unit is that somebody
    did not select. Where it is replaced at all, somebody with a weight above zero selected it.

    - ``own``: left out of the mean over members; in the mean over clusters the client's own row
      stands for a cluster without it, and for a class for which it did not select the unit.
    - ``held``: left out of both means.
    - ``within``: zeros in the mean over members; clusters without it are left out.
    - ``letter``: zeros in both. So a unit that only one of a client's two classes selected comes
      back halved, even from clusters of one.

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


def _averaged(
    weights: ClusterWeights, rows: Tensor, selected: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """Eq. 6-8: B[j, u, v] = sum_y choice[u, y, j] * weight[y, u, v] * selected[v, y, j].

    Which clusters the choice is over, and whether the weights sum to 1 over all members or over
    those that hold the unit, is what the readings differ in. Under ``own`` the client's own row
    takes the place of the clusters that are not chosen.
    """
    share = torch.bmm(weights.weight, selected.transpose(0, 1).double()).transpose(0, 1)
    held, replaced = share > 0, (share > 0).any(1)
    everywhere = weights.reading in ("own", "letter")
    over = weights.in_cluster[:, :, None].expand_as(held) if everywhere else held
    choice = over / over.sum(1, keepdim=True).clamp(min=1).double()
    own = choice.new_zeros(held[:, 0].shape)
    if weights.reading == "own":
        # Who only receives has no subnetwork of the class that could lack the unit.
        taken = held & (selected | ~weights.contributes[:, :, None])
        own, choice = (choice * ~taken).sum(1), choice * taken
        # The server knows a client's row only if the client selected it.
        replaced = taken.any(1) & ((own == 0) | selected.any(1))
    holders = weights.reading in ("own", "held")
    if mean is not None and weights.fusion != "leadership":
        fused = mixed(weights, rows, selected, choice, mean, holders)
        fused += own[:, :, None].to(rows.dtype) * rows
    else:
        if holders:
            choice = torch.where(held, choice / share, 0.0)

        def coefficients(units: slice) -> Tensor:
            takes_of, gives_of = (t[:, :, units].permute(1, 2, 0) for t in (choice, selected))
            b = choice.new_zeros(takes_of.shape[1], len(rows), len(rows))
            for weight, takes, gives in zip(weights.weight, takes_of, gives_of, strict=True):
                b.addcmul_(weight * takes[:, :, None], gives[:, None].to(b.dtype))
            # In float64, so that who is alone gets exactly 1 of its own row.
            b.diagonal(dim1=1, dim2=2).add_(own[:, units].T)
            return b

        fused, _ = _weighted_rows(coefficients, rows)
    return fused.mul_(replaced[:, :, None]), replaced


def _overlapping(
    weights: ClusterWeights, rows: Tensor, selected: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """Eq. 9, 10: B is the same for every unit, so one product of matrices fuses the layer."""
    held = _held(weights, selected) | ~weights.in_cluster[:, :, None]
    own = selected | ~weights.contributes[:, :, None]
    # A client that selected nothing shares no relevant unit with anyone.
    taking_part = weights.contributes.any(1) & weights.in_cluster.any(1)
    replaced = held.all(1) & own.all(1) & taking_part[:, None]
    if mean is not None:
        fused = mixed(weights, rows, selected, _evenly(weights, rows.shape[1]), mean)
    else:
        shares = weights.weight.sum(0) / weights.clusters_of.clamp(min=1)[:, None]
        fused = (shares.to(rows.dtype) @ rows.flatten(1)).view_as(rows)
    return fused.mul_(replaced[:, :, None]), replaced


def _overlapping_any(
    weights: ClusterWeights, rows: Tensor, selected: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """B[j, u, v] = mean of weight[y, u, v] over the clusters of u that hold unit j."""
    held = _held(weights, selected)
    shares = weights.weight.transpose(0, 1)
    choice = (held / held.sum(1, keepdim=True).clamp(min=1)).to(shares.dtype).transpose(1, 2)
    if mean is not None:
        return mixed(weights, rows, selected, choice.transpose(1, 2), mean), held.any(1)

    def coefficients(units: slice) -> Tensor:
        return torch.bmm(choice[:, units], shares).transpose(0, 1)

    return _weighted_rows(coefficients, rows)


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


def _evenly(weights: ClusterWeights, units: int) -> Tensor:
    """Return [n, classes, units]: a client takes the same of every cluster that it is in."""
    shares = weights.in_cluster / weights.clusters_of.clamp(min=1)[:, None]
    return shares[:, :, None].expand(-1, -1, units)


def _held(weights: ClusterWeights, selected: Tensor) -> Tensor:
    """Return bool [n, classes, units]: does the cluster of class y that u is in hold unit j."""
    # A sum of exact ones and zeros: zero contributing members did without the unit. float32
    # counts whole numbers up to 2**24 members.
    lacks = (weights.contributes[:, :, None] & ~selected).transpose(0, 1).float()
    missing = torch.bmm(weights.member.float(), lacks).transpose(0, 1)
    return (missing == 0) & weights.in_cluster[:, :, None]


def _weighted_rows(coefficients: Callable[[slice], Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return sum_v B[j, u, v] * rows[v, j] and where any B is above zero, in chunks of units."""
    n, units, _ = rows.shape
    fused = torch.empty_like(rows)
    replaced = torch.empty(n, units, dtype=torch.bool, device=rows.device)
    step = max(1, CHUNK_BYTES // (8 * n * n))
    for start in range(0, units, step):
        chunk = slice(start, start + step)
        b = coefficients(chunk)
        replaced[:, chunk] = (b.amax(2) > 0).T
        product = torch.bmm(b.to(rows.dtype), rows[:, chunk].transpose(0, 1))
        fused[:, chunk] = product.transpose(0, 1)
    return fused, replaced


_Fusion = Callable[[ClusterWeights, Tensor, Tensor, RowMean | None], tuple[Tensor, Tensor]]
_FUSIONS: dict[str, _Fusion] = {
    "avg": _averaged,
    "leadership": _averaged,
    "overlapping": _overlapping,
    "overlapping-any": _overlapping_any,
    "overlapping-additive": _overlapping_additive,
}
