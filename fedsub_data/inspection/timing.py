"""Windows in time: whether they overlap, which split ``auto`` chooses, and what is wrong.

Each is said of every person: one file with times, or without, hides nothing of the others. Whether
the split of ``auto`` leaks is said by :func:`fedsub_core.data.findings.findings`, as in a run.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.federation import Federation
from fedsub_core.data.findings import how_split, sides_warning, with_sides
from fedsub_core.data.grouped import several_groups
from fedsub_core.data.splits import SplitKind, split, split_kind
from fedsub_core.data.windows import Known, overlaps, time_known, window_seconds


@dataclass(frozen=True)
class Timing:
    """How the windows of a federation lie in time.

    Parameters
    ----------
    known : mapping of str to int
        How a split can know, and of how many people: ``seconds from t`` (and a window's length),
        ``order of t``, ``order of the file`` (the card's time_ordered) or ``unknown``.
    window_s : length of a window, by the card or by the samples of a raw window and the rate.
    card_overlap : share of a window that its successor repeats, as the card says; None: unknown.
    measured_overlap : the same as t shows: median over the windows that overlap their successor, 0
        where none does. None where nobody has t in seconds and the window length.
    overlapping_windows : float or None
        Share of the windows that overlap their successor, as t shows, of those people.
    auto_split : mapping of {'blocked', 'grouped', 'stratified'} to int
        What ``split = "auto"`` chooses, and for how many people.
    warnings : times and overlaps that contradict each other or are missing, and what to do.
    """

    known: Mapping[Known, int]
    window_s: float | None
    card_overlap: float | None
    measured_overlap: float | None
    overlapping_windows: float | None
    auto_split: Mapping[SplitKind, int]
    warnings: tuple[str, ...]


def inspect_timing(federation: Federation) -> Timing:
    """Return the timing of a federation's windows, with warnings."""
    card, clients = federation.card, list(federation.clients.values())
    known = dict(Counter(time_known(client, card) for client in clients))
    length = window_seconds(clients[0], card)
    measured, overlapping = _measured(federation)
    auto = dict(Counter(split_kind("auto", client, card) for client in clients))
    warnings = (*_warnings(card, length, known, measured), *_sides(federation))
    return Timing(known, length, card.overlap, measured, overlapping, auto, warnings)


def counted(people: Mapping[Known, int] | Mapping[SplitKind, int]) -> str:
    """Return the word that holds of all people, or each word with the number of its people."""
    if len(people) == 1:
        return next(iter(people))
    return ", ".join(f"{what} for {n} of {sum(people.values())}" for what, n in people.items())


def _measured(federation: Federation) -> tuple[float | None, float | None]:
    """Return the median overlap of windows that overlap their successor, and their share."""
    card = federation.card
    timed = [c for c in federation.clients.values() if time_known(c, card) == "seconds from t"]
    if not timed:
        return None, None
    shared = np.concatenate([overlaps(client, card) for client in timed])
    shared = shared[shared < 1]  # windows of one time are of devices that record at once
    windows = sum(len(client.y) for client in timed)
    return (float(np.median(shared)) if len(shared) else 0.0), len(shared) / windows


def _warnings(
    card: Card, length: float | None, known: Mapping[Known, int], measured: float | None
) -> list[str]:
    overlap = max(card.overlap or 0.0, measured or 0.0)
    warnings = []
    stated = card.overlap
    if measured is not None and stated is not None and abs(measured - stated) > 0.01:
        warnings.append(
            f"The card says overlap = {stated:g}, but the times t of the windows show "
            f"{measured:.2f}. Correct overlap in federation.toml."
        )
    if "order of t" in known and length is not None:
        warnings.append(
            f"Windows of {length:g} s overlap by the card, and start over a hundred windows apart "
            f"by the times t of {_people(known, 'order of t')}: t is taken for an order alone. "
            "Give t in seconds."
        )
    if overlap > 0 and "unknown" in known:
        warnings.append(
            f"The order in time is not known of {_people(known, 'unknown')} (no t, and "
            "time_ordered is false): a blocked split is only as good as the order of the files. "
            "Prefer unseen."
        )
    return warnings


def _sides(federation: Federation) -> list[str]:
    """Return a sentence on classes that a split by groups leaves to one part; [] without any."""
    card, splits = federation.card, dict[str, str]()
    for name, client in federation.clients.items():
        if several_groups(client):
            words = how_split(client, card, "grouped")
            parts = split(client, card, "grouped", SplitSettings().test_share, 0)
            splits[name] = with_sides(words, client, card, parts)
    return [*filter(None, [sides_warning(splits)])]


def _people(known: Mapping[Known, int], which: Known) -> str:
    n, everybody = known[which], sum(known.values())
    return f"all {everybody} people" if n == everybody else f"{n} of {everybody} people"
