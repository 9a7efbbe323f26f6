"""What a person demands of a sum who goes by a roster: signed keys, and one view of all.

Two things the masks alone leave to the server. It could pass on keys of its own, or of people whom
it invented: so keys are signed. And it could tell some that a person sent its vector, and others
that it did not, to have the shares of both its secrets: so each signs once a session what it saw
(Bonawitz et al. 2017, figure 4, the consistency check), and helps only if enough signed the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fedsub_core.secure.graph import neighbours
from fedsub_core.secure.keys import KEY_BYTES
from fedsub_core.secure.messages import (
    KEYS,
    SIGNED,
    SIGNED_KEYS_BYTES,
    TOLD_BYTES,
    VIEW,
    Name,
    Record,
    Unmask,
)
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.roster import Signer
from fedsub_core.secure.transcript import digest


def quorum(people: int) -> int:
    """Return the number of people of a sum whose views must be the same: more than two thirds.

    Two groups that are told different things then need a third or more who sign both views. So
    as many may go silent.
    """
    return 2 * people // 3 + 1


def said_of_keys(name: Name, joined: bytes) -> Record:
    """Return the values that somebody signs of the keys that it shows."""
    return {**name.record(KEYS), "keys": joined}


def said_of_view(name: Name, view: str) -> Record:
    """Return the values that somebody signs of its view, a hash in hexadecimal."""
    return {**name.record(VIEW), "view": view}


def view_of(told: str, sent: Collection[str], silent: Collection[str]) -> str:
    """Return the hash of a view: of what a person was told, and of who sent and who did not."""
    return digest({"sent": sorted(sent), "silent": sorted(silent), "told": told})


def signed_keys(
    signer: Signer,
    reader: Reader,
    record: Mapping[str, Any],
    shown: Mapping[str, bytes],
    own: bytes,
) -> dict[str, bytes]:
    """Return the keys of all people of a sum, each signed by its key in the roster.

    Parameters
    ----------
    record : the question for shares.
    shown : the keys of the person's neighbours in it.
    own : the person's own keys.

    Raises MessageRefused if somebody is not in the roster, or did not sign its keys for this
    session; or if others than follow from the session's name are neighbours.
    """
    name, client = reader.name(record), signer.client
    if SIGNED[0] not in record:
        expected = f"keys signed by people of the roster, of whom there are {signer.roster.number}"
        raise reader.refuse("secure sum: keys", "keys without signatures", expected)
    keys = {}
    for other, signed in reader.values(record, SIGNED_KEYS_BYTES, keys=SIGNED).items():
        keys[other], signature = signed[: 3 * KEY_BYTES], signed[3 * KEY_BYTES :]
        if fault := signer.fault(other, signature, said_of_keys(name, keys[other])):
            raise reader.refuse("secure sum: keys", *fault)
    if keys.get(client) != own:
        got = f"a list of {len(keys)} people without the keys that {client!r} showed"
        raise reader.refuse("secure sum: keys", got, "these among them")
    near = {other: keys[other] for other in neighbours(sorted(keys), name.session)[client]}
    if near.keys() != shown.keys():
        raise reader.refuse("secure sum: clients", sorted(shown), sorted(near))
    if others := sorted(other for other in near if near[other] != shown[other]):
        raise reader.refuse("secure sum: keys", f"other keys of {others}", "those that they signed")
    return keys


def demand_one_view(
    signer: Signer, reader: Reader, asked: Unmask, own: str, sent: Collection[str], people: int
) -> None:
    """Refuse to open a sum of which somebody saw something else, or too few signed the same.

    Parameters
    ----------
    asked : the question, with views.
    own : the person's own view, in hexadecimal.
    sent : who sent a vector by it, of all people.
    people : how many showed keys.

    Raises MessageRefused; with the name of whoever saw something else.
    """
    for other, signed in asked.views.items():
        view = signed[:TOLD_BYTES].hex()
        if fault := signer.fault(other, signed[TOLD_BYTES:], said_of_view(asked.name, view)):
            raise reader.refuse("secure sum: views", *fault)
        if view != own:
            got = f"{view[:16]}..., signed by {other!r}: it was told something else"
            raise reader.refuse("secure sum: views", got, f"{own[:16]}..., as this device saw")
    if strangers := sorted(asked.views.keys() - set(sent)):
        raise reader.refuse("secure sum: views", f"those of {strangers}", "of those who sent")
    if (same := len(asked.views.keys() | {signer.client})) < (expected := quorum(people)):
        got = f"the same of {same} people"
        raise reader.refuse("secure sum: views", got, f"{expected} of {people} at least")
