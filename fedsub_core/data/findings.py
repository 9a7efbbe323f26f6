"""Findings in a federation that bend a run's results without an error: leaks, repeats, twins.

Nothing here refuses anything; it is said by `fedsub data inspect`, by a run and on its page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.copies import different
from fedsub_core.data.federation import Federation
from fedsub_core.data.grouped import one_sided, several_groups
from fedsub_core.data.samples import NODE
from fedsub_core.data.splits import IntArray, SplitKind, split_kind
from fedsub_core.data.windows import far_apart, gap_windows, overlaps, time_known, window_seconds
from fedsub_core.errors import listed

#: So many people are named; the others are counted.
_NAMED = 10
#: How samples are divided that are not split in time.
AT_RANDOM = "at random in each class"
#: How a split in time ends in words, where no gap keeps its parts apart.
_NO_GAP = "gap not known"
#: How words on a split by groups begin, and the classes that one of its parts alone has.
_WHOLE, _SIDES = "by whole ", ("trained without a test", "tested without training")
#: The same of a graph's nodes, which nobody recorded one after another.
NODES_AT_RANDOM = f"{AT_RANDOM}, as a graph's nodes have no order"


@dataclass(frozen=True)
class SplitNote:
    """How one person's samples were divided.

    Parameters
    ----------
    split : in words, with the gap at cuts in time.
    training, testing, neither : samples of each part; `neither` lie in a gap, repeat a tested
        sample, or were left out as the run asked for.
    repeated : samples that are the same as an earlier one.
    validation : samples held back to choose the best round by.
    """

    split: str
    training: int
    testing: int
    neither: int
    repeated: int
    validation: int = 0


def split_note(
    words: str, client: ClientData, parts: tuple[IntArray, IntArray, IntArray | None]
) -> SplitNote:
    """Return the note on a client's samples; `parts` are trained, tested and held back."""
    trained, tested, held = (0 if part is None else len(part) for part in parts)
    neither = len(client.y) - trained - tested - held
    return SplitNote(words, trained, tested, neither, repeats(client), held)


def findings(federation: Federation, wanted: str) -> list[str]:
    """Return the findings that bend the results of a run whose ``split`` is `wanted`."""
    return [*_leaks(federation, wanted), *_repeats(federation), *_twins(federation)]


def how_split(client: ClientData, card: Card, kind: SplitKind) -> str:
    """Return in words how one client's samples are divided, and with which gap."""
    if kind == "grouped" and several_groups(client):
        return f"{_WHOLE}{card.groups or 'group'}s"
    if kind == "grouped":
        return f"all of one {card.groups or 'group'}: {how_split(client, card, 'blocked')}"
    if kind == "given":
        return "as its file says"
    if kind == "stratified":
        return NODES_AT_RANDOM if card.sample == NODE else AT_RANDOM
    known, length = time_known(client, card), window_seconds(client, card)
    if known == "seconds from t" and length is not None:
        return f"in time by t, gap {length:g} s"
    order = {"order of t": "by the order of t", "order of the file": "by the order of the file"}
    unknown = card.overlap is None or (length is None and card.overlap == 0)
    gap = _NO_GAP if unknown else f"gap {gap_windows(card)} windows"
    return f"in time {order.get(known, 'by the order of the file in each class')}, {gap}"


def with_sides(words: str, client: ClientData, card: Card, parts: tuple[IntArray, IntArray]) -> str:
    """Return the words on a client's split, with the classes that one part of whole groups lacks.

    `words` are those of :func:`how_split`, `parts` the indices of training and test part.
    """
    if not words.startswith(_WHOLE):
        return words
    lacking = one_sided(client, *parts)
    for side, part in zip(_SIDES, parts, strict=True):
        alone = [card.classes[label] for label in lacking if label in client.y[part]]
        words += f"; {side}: {', '.join(alone)}" if alone else ""
    return words


def sides_warning(splits: Mapping[str, str]) -> str:
    """Return a warning on classes that people have in one part alone; "" without any."""
    found = []
    for side in _SIDES:
        whose = [f"{who} ({text})" for who, words in splits.items() if (text := _of(side, words))]
        if whose:
            found.append(f"{side}: {listed(whose, _NAMED)}")
    if not found:
        return ""
    return (
        f"Split by whole groups, classes are {'; '.join(found)}. What is never trained cannot be "
        "recognised, what is never tested has no score. Record such classes in another recording, "
        "too, or on another day; or set split = blocked."
    )


def _of(side: str, words: str) -> str:
    return next((w.partition(": ")[2] for w in words.split("; ") if w.startswith(side)), "")


def split_warning(splits: Collection[str]) -> str:
    """Return in a line what a split at random may hide; "" where nobody has one, or of nodes.

    `splits` are everybody's in words (:func:`how_split`).
    """
    drawn = list(splits).count(AT_RANDOM)
    if not drawn:
        return ""
    who = "everybody" if drawn == len(splits) else f"{drawn} of {len(splits)} people"
    return (
        f"Split: {AT_RANDOM}, for {who}. If samples were recorded one after another, "
        "similar samples are in both the training and the test part, and all scores are too high. "
        "Then set time_ordered = true in federation.toml, or split = blocked."
    )


def gap_warning(splits: Mapping[str, str]) -> str:
    """Return a warning on people whose parts may share signal; "" without any.

    `splits` are in words by client (:func:`how_split`).
    """
    unknown = [client for client, split in splits.items() if split.endswith(_NO_GAP)]
    if not unknown:
        return ""
    return (
        f"Whether samples overlap is not known for {named(unknown, len(splits))}: they are split "
        "by order, without a gap. If windows overlap, training windows next to test windows share "
        "signal with them, and scores look better than they are. Give overlap in federation.toml "
        "(0 if none do), or window_s where files have t."
    )


def without_validation(notes: Mapping[str, SplitNote]) -> str:
    """Return a warning on people without a validation part; "" if all have one."""
    without = [client for client, note in notes.items() if not note.validation]
    if not without:
        return ""
    return (
        f"No validation part, for too few samples: {', '.join(without)}. No best round is chosen "
        "for them: they are tested with their latest model."
    )


def repeats(client: ClientData) -> int:
    """Return how many samples are the same as an earlier one."""
    return int((~different(client.first_copies, len(client.y))).sum())


def named(clients: Sequence[str], of: int) -> str:
    """Return clients by name, the first of many, or that it is all of them."""
    if len(clients) == of > 1:
        return f"all {of} clients"
    return f"{len(clients)} of {of} clients ({listed(clients, _NAMED)})"


def _leaks(federation: Federation, wanted: str) -> Iterable[str]:
    card, clients = federation.card, list(federation.clients.values())
    kinds = {data.client: split_kind(wanted, data, card) for data in clients}
    # Windows that begin at one time are on one side of a split at random, too.
    shown = {data.client: bool((overlaps(data, card) < 1).any()) for data in clients}
    random = [name for name, kind in kinds.items() if kind == "stratified"]
    if random and (card.overlap or any(shown.values())):
        yield (
            f"Windows overlap, and those of {named(random, len(clients))} are divided at random: "
            "test windows share signal with training windows, so scores look better "
            'than they are. Use split = "blocked" or "unseen", and give t or overlap.'
        )
    if unknown := gap_warning({d.client: how_split(d, card, kinds[d.client]) for d in clients}):
        yield unknown
    apart = [d.client for d in clients if not card.overlap and far_apart(d, card)]
    if apart:
        yield (
            f"The times t of {named(apart, len(clients))} say that windows start over a hundred "
            "window lengths apart. If t is not in seconds, overlap cannot be detected. Give t in "
            "seconds."
        )


def _repeats(federation: Federation) -> Iterable[str]:
    found, total, relabelled = list[str](), 0, 0
    for name, data in federation.clients.items():
        first = data.first_copies
        if first is not None:
            found.append(name)
            total += repeats(data)
            relabelled += int((data.y != data.y[first]).sum())
    if found:
        labels = f", {relabelled} of them with another label" if relabelled else ""
        yield (
            f"{total:,} samples of {named(found, len(federation.clients))} repeat an earlier one "
            f"exactly{labels}: equal samples stay on the same side of every split."
        )


def _twins(federation: Federation) -> Iterable[str]:
    """Yield who have the same samples and labels: one file under several ids."""
    same = defaultdict[bytes, list[str]](list)
    for name, data in federation.clients.items():
        same[data.digest].append(name)
    for names in same.values():
        if len(names) > 1:
            yield (
                f"Clients {', '.join(names)} hold the same samples: one is tested on what another "
                "trains on, and each counts as a person. Keep one of the files."
            )
