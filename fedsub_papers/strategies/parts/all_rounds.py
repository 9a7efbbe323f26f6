"""A bound on the sum of one client's updates over all rounds.

A correction that adds up over rounds, as FedDyn's does, adds up each round's hostile update, too.
The others pull against that ever harder, so their updates grow. A bound by the median of a single
round would grow with them.
"""

import statistics
from collections.abc import Mapping
from dataclasses import replace

import torch

from fedsub_core.config.robust import RobustSettings
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.parts.averaging import way_to, weights
from strategies.parts.clipping import FEWEST, MOST_ADDED, clip
from strategies.rounds.server_half import State

#: In a state, ``moved/<client>``: what its updates of all rounds add up to, float32 [numbers].
MOVED = "moved/"


def bounded(
    uploads: Mapping[str, Bundle], old: State, state: State, settings: RobustSettings
) -> tuple[dict[str, Bundle], State]:
    """Return uploads whose sums over all rounds are bounded, and these sums.

    A sum's root mean square, over the numbers that a client holds, is at most :data:`MOST_ADDED`
    times the median of the round's clients: the update is shortened to that. An upload within the
    bound stays the very same.

    Parameters
    ----------
    uploads : in the places of the whole model; each tensor is held whole, or not at all.
    old : the tensors that uploads began from.
    state : of the method, with the sums that earlier rounds returned.
    settings : by which the round's updates are shortened first.
    """
    moves = torch.stack([way_to(upload, old) for upload in uploads.values()])
    clip(uploads, old, weights(uploads, settings.most_examples)).shorten(moves)
    before = {c: state.get(f"{MOVED}{c}", torch.zeros(())).double() for c in uploads}
    sums = {c: before[c] + move for c, move in zip(uploads, moves, strict=True)}
    held = {c: sum(upload.part(n).values.size for n in old) for c, upload in uploads.items()}
    lengths = {c: float(total.norm()) / max(held[c], 1) ** 0.5 for c, total in sums.items()}
    most = MOST_ADDED * statistics.median_low(lengths.values()) if len(sums) >= FEWEST else 0.0
    within = dict(uploads)
    for client, length in lengths.items():
        if 0 < most < length:
            sums[client] *= most / length
            within[client] = _moved(uploads[client], old, sums[client] - before[client])
    return within, {f"{MOVED}{client}": total.float() for client, total in sums.items()}


def _moved(upload: Bundle, old: State, move: torch.Tensor) -> Bundle:
    """Return an upload that is `old` and `move`, flat over all tensors, where it holds numbers."""
    pieces = torch.split(move.float(), [tensor.numel() for tensor in old.values()])
    tensors: dict[str, Part] = dict(upload.tensors)
    for (name, before), piece in zip(old.items(), pieces, strict=True):
        at = upload.part(name).at
        tensors[name] = Floats(at.take(before + piece.view(before.shape)).numpy(), at)
    return replace(upload, tensors=tensors)
