"""Windows in time: whether they overlap, which split ``auto`` chooses, and what would leak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsub_core.data.card import Card
from fedsub_core.data.federation import Federation
from fedsub_core.data.splits import SplitKind, in_seconds, overlaps, split_kind

Known = Literal["seconds from t", "order of t", "order of the file", "unknown"]


@dataclass(frozen=True)
class Timing:
    """How the windows of a federation lie in time.

    Parameters
    ----------
    known : str
        How a split can know: ``seconds from t`` (and the card's window length), ``order of t``,
        ``order of the file`` (the card's time_ordered) or ``unknown``.
    card_overlap : float
        Share of a window that its successor repeats, as the card says.
    measured_overlap : float or None
        The same as t shows: median over the windows that overlap their successor, 0 where none
        does. None where t or the window length is missing.
    overlapping_windows : float or None
        Share of the windows that overlap their successor, as t shows.
    auto_split : {'blocked', 'stratified'}
        What ``split = "auto"`` chooses for this federation, for some client at least.
    warnings : tuple of str
        What would leak, and what to do.
    """

    known: Known
    card_overlap: float
    measured_overlap: float | None
    overlapping_windows: float | None
    auto_split: SplitKind
    warnings: tuple[str, ...]

    @property
    def overlap(self) -> float:
        """Share of a window that its successor repeats: the larger of what card and t say."""
        return max(self.card_overlap, self.measured_overlap or 0.0)


def inspect_timing(federation: Federation) -> Timing:
    """Return how the windows of `federation` lie in time, with warnings of leaks."""
    card = federation.card
    known = _known(federation)
    measured, overlapping = _measured(federation) if known == "seconds from t" else (None, None)
    kinds = {split_kind("auto", client, card) for client in federation.clients.values()}
    auto: SplitKind = "blocked" if "blocked" in kinds else "stratified"
    warnings = tuple(_warnings(card, known, measured))
    return Timing(known, card.overlap, measured, overlapping, auto, warnings)


def _known(federation: Federation) -> Known:
    clients = federation.clients.values()
    if all(data.t is not None for data in clients):
        seconds = all(in_seconds(data, federation.card) for data in clients)
        return "seconds from t" if seconds else "order of t"
    return "order of the file" if federation.card.time_ordered else "unknown"


def _measured(federation: Federation) -> tuple[float, float]:
    """Return the median overlap of windows that overlap their successor, and their share."""
    clients = federation.clients.values()
    shared = np.concatenate([overlaps(client, federation.card) for client in clients])
    windows = sum(len(client.y) for client in clients)
    return (float(np.median(shared)) if len(shared) else 0.0), len(shared) / windows


def _warnings(card: Card, known: Known, measured: float | None) -> list[str]:
    overlap = max(card.overlap, measured or 0.0)
    found = []
    if overlap > 0:
        found.append(
            f"Windows overlap by {overlap:.0%}: a stratified split leaks, because windows that are "
            "tested share part of their signal with windows that were trained on. Scores would "
            'look better than they are. Use split = "blocked" or "unseen".'
        )
    if measured is not None and abs(measured - card.overlap) > 0.01:
        found.append(
            f"The card says overlap = {card.overlap:g}, but the times t of the windows show "
            f"{measured:.2f}. Correct overlap in federation.toml."
        )
    if known == "order of t" and card.window_s is not None:
        found.append(
            f"Windows of {card.window_s:g} s overlap by the card, and start over a hundred windows "
            "apart by their times t: t is taken for an order alone. Give t in seconds."
        )
    if overlap > 0 and known == "unknown":
        found.append(
            "No client's order in time is known (no t for all, and time_ordered is false): a "
            "blocked split is only as good as the order of the files. Prefer unseen."
        )
    return found
