"""Remarks on a method's numbers and rounds: people who are not in them, training that diverged."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fedsub_core.config.tested import read_people
from fedsub_core.data.fingerprint import fingerprint_key
from fedsub_core.data.held_out import unseen_clients
from fedsub_core.errors import DataError, listed
from fedsub_core.methods.table import METHODS
from fedsub_core.metric_names import ANEW, CAPACITY, DIVERGED
from fedsub_server.convergence import FALLS
from fedsub_server.forgotten import is_alias
from fedsub_server.method_summary import MethodSummary
from fedsub_server.rundb import RunDatabase

#: People that are named in a sentence at most.
NAMED = 10
#: What happened on devices, by the metric that counts it.
_DEVICES = {
    "missing_replies": "No answer",
    "late_replies": "Answered after the deadline, so it was not used",
    ANEW: "Began anew, as the device kept nothing of the run any more",
}


def left_out(
    db: RunDatabase, config: Mapping[str, Any], tested: Collection[str], round: int
) -> dict[str, str]:
    """Return, by client, the reason why it is not in the numbers of `round`.

    Parameters
    ----------
    config : of the run's start, flat; in a simulation with a digest of everybody's data.
    tested : who is in them.
    """
    prefix = fingerprint_key("")
    known = {key.removeprefix(prefix) for key in config if key.startswith(prefix)}
    known |= {name for name in db.clients() if not is_alias(name)}
    if config.get("split") == "unseen":
        known = _held_out(known, config, {r.client: r.value for r in db.metrics(CAPACITY)})
    absent = sorted(known.difference(tested))
    if not absent:
        return {}
    rows = {client: (r, value) for r, client, _, _, value in db.metrics("examples")}
    since = {client: rows[client][0] if client in rows else 0 for client in absent}
    failed = why_untested(db, since)
    return {client: _why(client, rows, round, failed.get(client, "")) for client in absent}


def _why(client: str, rows: Mapping[str, tuple[int, float]], round: int, failed: str) -> str:
    if client not in rows:
        return f"never tested: {failed or 'turned away, or it did not answer'}"
    last, examples = rows[client]
    if last == round and examples == 0:
        return "no test samples"
    return f"{failed or f'did not answer in round {round}'}, last tested in round {last}"


def _held_out(
    known: Collection[str], config: Mapping[str, Any], capacities: Mapping[str, float]
) -> set[str]:
    """Return the people whom a run with split=unseen tests at its end: those held out."""
    if not {"unseen-share", "seed"} <= config.keys():
        return set()
    if named := read_people(str(config.get("unseen-people", ""))):
        return set(named).intersection(known)
    share, by = float(config["unseen-share"]), str(config.get("unseen-by", "people"))
    try:
        return set(unseen_clients(known, share, int(config["seed"]), by, capacities))
    except DataError:  # so few are left that nobody could be held out: others were forgotten
        return set()


def by_reason(absent: Mapping[str, str]) -> str:
    """Return one text on people who are left out, grouped by the reason."""
    groups = defaultdict[str, list[str]](list)
    for client, why in absent.items():
        groups[why].append(client)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in groups.items())


def remarks(summaries: Sequence[MethodSummary]) -> list[str]:
    """Return sentences on people who are left out of methods' numbers, and on bad training.

    Training is bad where a loss is no number, or still fell at the end. A method may have several
    summaries, one a seed: each counts.
    """
    absent = _methods_by((s.left_out, s.method) for s in summaries)
    sentences = [f"Not in the numbers of {', '.join(m)}: {who}." for who, m in absent.items()]
    sentences += [
        f"The numbers of {s.method} are of {s.clients} of {s.people} people, fewer than half: what "
        "they are above or below those of other rounds or methods is no gain and no loss."
        for s in summaries
        if 0 < 2 * s.clients < s.people
    ]
    wrong = _methods_by((s.diverged, s.method) for s in summaries)
    sentences += [
        f"The loss of {', '.join(m)} is not a number for {who}: training diverged, and scores of "
        f"such models mean nothing.{lower(*m)}"
        for who, m in wrong.items()
    ]
    labels = dict.fromkeys(s.method for s in summaries)
    each = {label: [s.still_falls for s in summaries if s.method == label] for label in labels}
    # Of several seeds, if it is so of most.
    going = [label for label, falls in each.items() if 2 * sum(falls) > len(falls)]
    if going:
        sentences.append(
            f"Not converged: {', '.join(going)}. The loss still fell by more than {FALLS:.0%} in "
            "the last quarter of the rounds; more rounds or a higher lr would change these numbers."
        )
    happened = _methods_by((s.in_rounds, s.method) for s in summaries)
    sentences += [f"{', '.join(m)}: {text}" for text, m in happened.items()]
    return sentences


def diverged(losses: Mapping[str, float]) -> str:
    """Return the names of people whose loss is no number."""
    return ", ".join(client for client, loss in losses.items() if not math.isfinite(loss))


def _methods_by(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    methods_by_text = defaultdict[str, list[str]](list)
    for text, method in pairs:
        if text and method not in methods_by_text[text]:
            methods_by_text[text].append(method)
    return {text: methods for text, methods in methods_by_text.items() if methods}


def in_rounds(db: RunDatabase, method: str) -> str:
    """Return the remarks on a method's rounds that a table must not go without; "" for none."""
    sentences = []
    if wild := db.rounds_above_0(DIVERGED):
        sentences.append(
            f"What came of {_who(wild)} held NaN, infinite or huge numbers, as of training that "
            f"diverged, and was not used.{lower(method)}"
        )
    refused = {
        client: [round for round in rounds if round not in wild.get(client, ())]
        for client, rounds in db.rounds_above_0("refused_replies").items()
    }
    if refused := {client: rounds for client, rounds in refused.items() if rounds}:
        sentences.append(f"What came could not be used of {_who(refused)}; the log says why.")
    if out := db.rounds_above_0("left_out"):
        sentences.append(f"Left out from then on, as the others' training broke: {_who(out)}.")
    sentences += [
        f"{words}: {_who(rounds)}."
        for metric, words in _DEVICES.items()
        if (rounds := db.rounds_above_0(metric))
    ]
    undone = sorted({r for rounds in db.rounds_above_0("undone").values() for r in rounds})
    if undone:
        when = f"round{'s' * (len(undone) > 1)} {', '.join(map(str, undone))}"
        sentences.append(f"The server went back to an earlier state in {when}.")
    if left := db.thinned():
        sentences.append(
            f"Of {db.last_round()} rounds, {left} are shown: older ones were thinned with age. "
            "Means of bytes and what is said of rounds here are of all."
        )
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
        for client, rounds in db.rounds_above_0(metric).items():
            if client in since and rounds[-1] > since[client]:
                reasons[client] = words.format(rounds[-1])
    return reasons


def _who(rounds: Mapping[str, list[int]]) -> str:
    """Return the names of clients and the span of their rounds, in words."""
    all_rounds = sorted({round for one in rounds.values() for round in one})
    first, last = all_rounds[0], all_rounds[-1]
    when = f"round {first}" if first == last else f"{len(all_rounds)} of rounds {first} to {last}"
    return f"{listed(rounds, NAMED)} (in {when})"
