"""People who leave from their own device: forgotten after the round, with a record of it.

The run's folder keeps the record without the name, under the digest of :mod:`.forgotten`. The
person's device is sent it, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsub_core.errors import cut
from fedsub_core.files import write_whole
from fedsub_core.wire.leaving import Left
from fedsub_server.forgetting import CannotForget, forget
from fedsub_server.forgotten import note_forgotten, read_forgotten

log = logging.getLogger("fedsub")

#: Records of people who left, of this run.
DEPARTURES_FILE = "departures.json"
DELETED: tuple[str, ...] = (
    "The run's folder has nothing more of you: your numbers, prototypes and sums, your key, your "
    "model if it was simulated, and your name. Your scores and bytes stay without your name.",
    "If the method keeps everybody's sums, yours were taken out of them: they are those of a run "
    "without you.",
    "You are asked nothing more in this run.",
)
REMAINS: tuple[str, ...] = (
    "What others learnt from you stays: in the common model, other people's models, the shared "
    "standardisation and the clusters that you helped to form. Only a new run removes that.",
    "Copies and backups of the run's folder, and earlier logs, are not changed.",
    "The server's own database (link.db) keeps your name beside your key until its owner "
    "unregisters it, and as revoked after that.",
)
ONLY_STOPPED = ("You are asked nothing more in this run.",)


class PeopleLeft(Exception):
    """People said that they leave: the run ends after a round, and goes on without them."""


def take_leaves(folder: Path, clients: Collection[str]) -> None:
    """Forget people who left, and note what was deleted of each, and what cannot be.

    Who cannot be forgotten, as of secure sums, is still asked no more.

    Raises RunError if the folder cannot be written. What was done is kept, and can be done again.
    """
    for client in sorted(clients):
        deleted, remains = DELETED, REMAINS
        try:
            name_then = forget(folder, client)
        except CannotForget as error:
            name_then, why = "", cut(error).replace(client, "this person")
            if client not in read_forgotten(folder):  # else it was done, and the record was not
                note_forgotten(folder, client)
                deleted, remains = ONLY_STOPPED, (f"Nothing was removed: {why}", *REMAINS)
        forgotten, records = read_forgotten(folder), _records(folder)
        when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        records[forgotten.digest(client)] = {
            "when": when,
            "metrics": name_then,
            "deleted": list(deleted),
            "remains": list(remains),
        }
        text = json.dumps(records, indent=1) + "\n"
        write_whole(folder / DEPARTURES_FILE, text.encode())
        log.warning(
            "a person left: forgotten, metrics stand under %r; %s has what was deleted",
            name_then,
            DEPARTURES_FILE,
        )


def left_of(folder: Path, client: str) -> Left:
    """Return the record of a forgotten person, whoever forgot it."""
    kept = _records(folder).get(read_forgotten(folder).digest(client), {})
    deleted, remains = kept.get("deleted", DELETED), kept.get("remains", REMAINS)
    return Left(deleted, remains)


def _records(folder: Path) -> dict[str, Mapping[str, Any]]:
    try:
        kept = json.loads((folder / DEPARTURES_FILE).read_text("utf-8"))
    except (OSError, ValueError):  # none yet; a damaged one names nobody, and is written anew
        return {}
    return kept if isinstance(kept, dict) else {}
