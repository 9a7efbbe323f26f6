"""Prototypes on the server: of every class the mean of what people send; what they may send."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from fedsub_core.config.robust import RobustSettings
from fedsub_core.errors import MessageRefused
from fedsub_core.method_parts.prototypes import COUNTS, PROTOTYPES
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.parts.averaging import robust_mean
from strategies.parts.clipping import MOST_ADDED
from strategies.rounds.server_half import State

HELD = "held"


def no_prototypes(model: Model) -> State:
    """Return the part of a state that is prototypes [classes, d], and which of them there are."""
    prototypes = torch.zeros(model.classes, model.embedding_size)
    return {PROTOTYPES: prototypes, HELD: torch.zeros(model.classes, dtype=torch.bool)}


def known_prototypes(state: State) -> dict[str, Part]:
    """Return the prototypes that everybody is sent: those that there are."""
    held = state[HELD]
    if not held.any():
        return {}
    return {PROTOTYPES: Floats.rows(held.numpy(), state[PROTOTYPES][held].numpy())}


def mean_prototypes(state: State, uploads: Mapping[str, Bundle], robust: RobustSettings) -> State:
    """Return the part of a state that is prototypes, after a round's uploads.

    Of each class it is ``sum(n * rho) / sum(n)`` over those who sent one, n being 1 or, where they
    travel, the samples; filtered as the run is configured. Others stay. Tan et al. 2022, eq. 6,
    with weights that sum to 1.

    A prototype is a place, not a way from the last mean: ``clip`` bounds its own length. Around the
    last mean it would keep out whoever comes late, or is of a minority. However few send one, it
    may be three times as long as the median: shorter ones are other places.
    """
    prototypes, held = state[PROTOTYPES].clone(), state[HELD].clone()
    origin = {PROTOTYPES: torch.zeros(prototypes.shape[1])}
    for y in range(len(held)):
        sent = {}
        for client, upload in uploads.items():
            rows = upload.part(PROTOTYPES)
            for row in rows.values[rows.at.rows == y]:
                n = int(upload.floats(COUNTS)[y]) if COUNTS in upload.tensors else 1
                sent[client] = Bundle(n, tensors={PROTOTYPES: Floats(row)})
        if sent:
            prototypes[y] = robust_mean(sent, origin, robust, most=MOST_ADDED)[PROTOTYPES]
            held[y] = True
    return {PROTOTYPES: prototypes, HELD: held}


def check_prototypes(
    upload: Bundle, refuse: Callable[[str, object, object], MessageRefused]
) -> None:
    """Demand a prototype at least, and of exactly those classes counts that add up."""
    rows = upload.part(PROTOTYPES).at.rows
    held = [] if rows is None else rows.tolist()
    if not held:
        raise refuse("classes with a prototype", "none", "at least one")
    if COUNTS not in upload.tensors:
        return
    counts = upload.floats(COUNTS)
    if (counts % 1 != 0).any() or (counts < 0).any() or counts.nonzero()[0].tolist() != held:
        expected = f"whole numbers above 0 for classes {held}, which have a prototype, else 0"
        raise refuse("counts", counts.tolist(), expected)
    if (total := int(counts.astype("float64").sum())) != upload.examples:
        raise refuse("counts", f"{total} samples in all", f"{upload.examples}, its examples")
