"""Ids of clients, by the names of people as tables have them."""

import re
from collections.abc import Collection, Sequence

from fedsub_core.errors import DataError, listed
from fedsub_core.options import suggestion


def client_id(text: str) -> str:
    """Return the client's id of a person's name; an id stays as it is."""
    name = re.sub(r"^(\d+)\.0$", r"\1", text.strip())
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:64]
    return name if name[:1].isalnum() else f"p{name}"[:64]


def nearest_person(name: str, people: Collection[str]) -> str:
    """Return " Did you mean ...?" with the id that `name` has, or the nearest one, or nothing."""
    own = client_id(name)
    return suggestion(own if own in people else name, people)


def client_ids(texts: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the client's id of each person's name, and what was renamed, in sentences.

    Ids stay text: ``01`` is no ``1``; a whole number that a table kept as ``1.0`` is ``1``.

    Raises DataError where two people would have one id.
    """
    made: dict[str, str] = {}
    for text in texts:
        made[text] = client_id(text)
    owners: dict[str, str] = {}
    for text, name in made.items():
        other = owners.setdefault(name, re.sub(r"\.0$", "", text.strip()))
        if other != re.sub(r"\.0$", "", text.strip()):
            raise DataError(
                f"people {other!r} and {text!r}: both would be client {name!r}; expected names "
                "that differ in letters and digits. Rename one"
            )
    renamed = [f"{t!r} is {n!r}" for t, n in made.items() if t.strip() not in (n, f"{n}.0")]
    notes = [f"Renamed people, as ids name files: {listed(renamed, 5)}."] if renamed else []
    folded: dict[str, list[str]] = {}
    for name in dict.fromkeys(made.values()):
        folded.setdefault(name.casefold(), []).append(name)
    notes += [
        f"People whose names differ in case alone: {listed(map(repr, names), 5)}. If they are one "
        "person, write one name."
        for names in folded.values()
        if len(names) > 1
    ]
    return made, notes
