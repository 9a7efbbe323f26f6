"""What keeps one client's updates of all rounds together from adding up to too much.

A correction that adds up over rounds, as FedDyn's does, adds up what a hostile client did in each.
The others pull against that ever harder, so that a bound by the round's median alone grows with
what it is to bound.
"""

from __future__ import annotations

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
    """Return uploads of which none has moved too far in all rounds, and the way of each so far.

    A way, over the numbers that a client holds, is no longer than :data:`MOST_ADDED` times the
    median of the round's clients: of what is beyond, the update is made less. Who is not bounded
    keeps the very same upload.

    Parameters
    ----------
    uploads : in the places of the whole model; of a tensor all is held, or nothing.
    old : the tensors that uploads began from.
    state : of the method, with what earlier rounds returned.
    settings : by which the round's updates are shortened first.
    """
    moves = torch.stack([way_to(upload, old) for upload in uploads.values()])
    clip(uploads, old, weights(uploads, settings.most_examples)).shorten(moves)
    found, ways = dict(uploads), State()
    for client, move in zip(uploads, moves, strict=True):
        ways[client] = state.get(f"{MOVED}{client}", torch.zeros(())).double() + move
    held = {c: sum(one.part(name).values.size for name in old) for c, one in uploads.items()}
    lengths = {c: float(way.norm()) / max(held[c], 1) ** 0.5 for c, way in ways.items()}
    most = MOST_ADDED * statistics.median_low(lengths.values()) if len(ways) >= FEWEST else 0.0
    for (client, way), move in zip(ways.items(), moves, strict=True):
        if 0 < most < lengths[client]:
            before = way - move
            ways[client] = way * (most / lengths[client])
            found[client] = _moved(uploads[client], old, ways[client] - before)
    return found, {f"{MOVED}{client}": way.float() for client, way in ways.items()}


def _moved(upload: Bundle, old: State, move: torch.Tensor) -> Bundle:
    """Return an upload that has moved by `move`, all tensors in a row, where it holds numbers."""
    pieces = torch.split(move.float(), [tensor.numel() for tensor in old.values()])
    tensors: dict[str, Part] = dict(upload.tensors)
    for (name, before), piece in zip(old.items(), pieces, strict=True):
        at = upload.part(name).at
        tensors[name] = Floats(at.take(before + piece.view(before.shape)).numpy(), at)
    return replace(upload, tensors=tensors)
