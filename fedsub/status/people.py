"""People of a run: the state of each, and its last numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedsub.status.facts import Person
from fedsub.status.run_facts import RunFacts, number, texts, whole
from fedsub_server.forgotten import is_alias
from fedsub_server.rundb_glance import Glance

#: Metrics of which a person's last value counts.
_NEWEST = ("capacity", "bytes_up_sent", "bytes_down_sent", "macro_f1")
#: A look at the database of a method that has not begun.
_NOTHING = Glance({}, "", 0, (), 0.0)


def people_of(run: RunFacts, current: bool) -> list[Person]:
    """Return everybody's state and numbers, by the server's last words and the database.

    Parameters
    ----------
    current : whether the server still speaks.
    """
    look = run.look or _NOTHING
    told = run.live.get("people")
    said: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    # Who took part in a method that trained before may be away since.
    before = [metrics for one in run.looks.values() for metrics in one.rounds.values()]
    known = {name for metrics in before for each in metrics.values() for name in each}
    usable = look.last("bytes_up_sent")
    newest = {name: look.newest(name) for name in _NEWEST}
    missing, refusals = look.sums("missing_replies"), look.sums("refused_replies")
    waited = set(texts(run.live.get("waited_for"))) if current else set[str]()
    last = look.rounds.get(look.round, {})
    _, alone = run.twin
    people = []
    for client in sorted(known | said.keys()):
        own = said.get(client)
        own = own if isinstance(own, Mapping) else {}
        refused = own.get("refused")
        why = None
        if isinstance(refused, list) and len(refused) == 2:
            # The error itself begins with who, and mostly with when.
            error = str(refused[1]).removeprefix(f"client {client!r}, round {refused[0]}: ")
            why = f"round {refused[0]}: {error}"
        until = whole(own, "rests_until")
        # People of a simulation say none: they are the run's process.
        version = own.get("version") if own else look.version
        person = Person(
            client=client,
            state="idle",
            node=whole(own, "node"),
            since=str(own["since"]) if current and own.get("since") else None,
            version=str(version) if version else None,
            capacity=number(own, "capacity", None) or newest["capacity"].get(client),
            usable=max(filter(None, [whole(own, "usable"), usable.get(client)]), default=None),
            failed=int(missing.get(client, 0)),
            refused=int(refusals.get(client, 0)),
            why=why,
            rests_until=until if until is not None and until > run.round else None,
            seconds=number(own, "seconds", None),
            bytes_up=newest["bytes_up_sent"].get(client),
            bytes_down=newest["bytes_down_sent"].get(client),
            macro_f1=newest["macro_f1"].get(client),
            alone=alone.get(client),
        )
        lost = current and isinstance(told, Mapping) and client not in said
        state = (
            "away"
            if lost and not is_alias(client)
            else _state(person, own, last, current, client in waited)
        )
        people.append(replace(person, state=state))
    return people


def _state(
    person: Person,
    own: Mapping[str, Any],
    last: Mapping[str, Mapping[str, float]],
    current: bool,
    waited: bool,
) -> str:
    """Return a person's state: that of now goes before that of the last round."""
    client = person.client
    if is_alias(client):
        return "forgotten"
    if own.get("retired"):
        return "retired"
    if own.get("left_out") or client in last.get("left_out", {}):
        return "left out"
    if current and own.get("online") is False:
        return "away"
    if waited:
        return "waited for"
    for metric, state in (("missing_replies", "silent"), ("refused_replies", "refused")):
        if client in last.get(metric, {}):
            return state
    if person.rests_until is not None or client in last.get("resting", {}):
        return "resting"
    return "trained" if client in last.get("bytes_up_sent", {}) else "idle"
