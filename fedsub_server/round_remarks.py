"""Remarks on a run's rounds, in sentences: whose training diverged, who was left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from fedsub_core.errors import listed
from fedsub_core.methods.table import METHODS
from fedsub_core.metric_names import ANEW, DIVERGED
from fedsub_server.rundb import RunDatabase

#: People that are named in a sentence at most.
NAMED = 10
#: What happened on devices, by the metric that counts it.
_DEVICES = {
    "missing_replies": "No answer",
    "late_replies": "Answered after the deadline, so it was not used",
    ANEW: "Began anew, as the device kept nothing of the run any more",
}


def in_rounds(db: RunDatabase, method: str) -> str:
    """Return the remarks on a method's rounds that a table must not go without; "" for none."""
    sentences = []
    if wild := _rounds(db, DIVERGED):
        sentences.append(
            f"What came of {_who(wild)} held NaN, infinite or huge numbers, as of training that "
            f"diverged, and was not used.{lower(method)}"
        )
    refused = {
        client: [round for round in rounds if round not in wild.get(client, ())]
        for client, rounds in _rounds(db, "refused_replies").items()
    }
    if refused := {client: rounds for client, rounds in refused.items() if rounds}:
        sentences.append(f"What came could not be used of {_who(refused)}; the log says why.")
    if out := _rounds(db, "left_out"):
        sentences.append(f"Left out from then on, as the others' training broke: {_who(out)}.")
    sentences += [
        f"{words}: {_who(rounds)}."
        for metric, words in _DEVICES.items()
        if (rounds := _rounds(db, metric))
    ]
    undone = sorted({row.round for row in db.metrics("undone")})
    if undone:
        when = f"round{'s' * (len(undone) > 1)} {', '.join(map(str, undone))}"
        sentences.append(f"The server went back to an earlier state in {when}.")
    return " ".join(sentences)


def lower(*methods: str) -> str:
    """Return a sentence on the rates to lower where training diverged; "" without any."""
    cards = [METHODS.get(method) for method in methods]
    keys = (("lr",) if card is None else card.rate_keys for card in cards)
    rates = dict.fromkeys(key for of_one in keys for key in of_one)
    return f" Lower {' or '.join(rates)}." if rates else ""


def why_untested(db: RunDatabase, since: Mapping[str, int]) -> dict[str, str]:
    """Return, by client, the reason why it gave no numbers after it was last tested.

    Parameters
    ----------
    since : the round of that test, by client; 0 for none. Who failed in no round since is left out.
    """
    reasons: dict[str, str] = {}
    for metric, words in (
        ("missing_replies", "did not answer in round {}"),
        ("left_out", "left out from round {} on, as the others' training broke"),
        ("refused_replies", "what it sent in round {} could not be used"),
        (DIVERGED, "training diverged: what it sent in round {} held NaN or huge numbers"),
    ):
        for client, rounds in _rounds(db, metric).items():
            if client in since and rounds[-1] > since[client]:
                reasons[client] = words.format(rounds[-1])
    return reasons


def _rounds(db: RunDatabase, metric: str) -> dict[str, list[int]]:
    """Return the rounds in which a metric counts something, by client, ascending."""
    by_client = defaultdict[str, set[int]](set)
    for row in db.metrics(metric):
        if row.value > 0 and row.round > 0:
            by_client[row.client].add(row.round)
    return {client: sorted(rounds) for client, rounds in sorted(by_client.items())}


def _who(rounds: Mapping[str, list[int]]) -> str:
    """Return the names of clients and the span of their rounds, in words."""
    all_rounds = sorted({round for one in rounds.values() for round in one})
    first, last = all_rounds[0], all_rounds[-1]
    when = f"round {first}" if first == last else f"{len(all_rounds)} of rounds {first} to {last}"
    return f"{listed(rounds, NAMED)} (in {when})"
