"""Remarks on a method's numbers: people who are not in them, and people without a loss."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fedsub_core.data.fingerprint import fingerprint_key
from fedsub_core.data.splits import unseen_clients
from fedsub_core.errors import DataError
from fedsub_core.metric_names import CAPACITY
from fedsub_server.convergence import FALLS
from fedsub_server.forgotten import is_alias
from fedsub_server.method_summary import MethodSummary
from fedsub_server.round_remarks import lower, why_untested
from fedsub_server.rundb import RunDatabase


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
