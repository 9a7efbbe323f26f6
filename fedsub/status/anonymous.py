"""A status without names, to be shown where others may look."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from fedsub.status.facts import Status, Trouble
from fedsub.status.reading import RUN_IN_DEPLOYMENT
from fedsub_core.release import numbers_of


def anonymised(status: Status) -> Status:
    """Return it with people called ``device 1`` and so on, in the order of their ids.

    Left out is whatever could say more: Flower's ids of nodes, this machine's name, the way to the
    folder, and reasons. A reason is a device's or an error's own words, and can hold anything. So
    can what a device calls its version, of which the numbers stay.
    """
    numbers = {person.client: f"device {i}" for i, person in enumerate(status.people, start=1)}

    # Not by \b: an id may end with a dot.
    ids = "|".join(map(re.escape, numbers))
    named = re.compile(rf"(?<!\w)({ids})(?!\w)") if numbers else None

    def called(clients: Iterable[str]) -> tuple[str, ...]:
        return tuple(numbers.get(client, "a device") for client in clients)

    def hidden(trouble: Trouble) -> Trouble:
        if trouble.kind == "turned away":
            return Trouble(trouble.kind, "a node was turned away")
        # Whatever a sentence is made of: rather none than one with a name.
        said = trouble.kind if named and named.search(trouble.said) else trouble.said
        return replace(trouble, said=said, clients=called(trouble.clients), why="")

    path = Path(status.path)
    inner = status.kind == "deployment" and path.name == RUN_IN_DEPLOYMENT
    return replace(
        status,
        path=(path.parent if inner else path).name,
        host="",
        asked=called(status.asked),
        waited_for=called(status.waited_for),
        people=[
            replace(
                person,
                client=numbers[person.client],
                node=None,
                version=None if person.version is None else numbers_of(person.version),
                # What stands before the colon is the round.
                why=None if person.why is None else person.why.partition(":")[0],
            )
            for person in status.people
        ],
        together=[replace(one, groups=[*map(called, one.groups)]) for one in status.together],
        turned_away=[("", "") for _ in status.turned_away],
        troubles=[hidden(trouble) for trouble in status.troubles],
    )
