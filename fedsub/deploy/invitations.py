"""Invitations: one-time codes with an end, as files.

A batch is a CSV file in the server's folder of invitations. It has hashes of tokens, by which
nobody can join. The codes themselves are in a file of whoever invites.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from fedsub.deploy.codes import new_code, token_hash, token_of
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import make_folder, write_whole
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id

#: Seconds are enough; all times are UTC.
_TIME = "%Y-%m-%dT%H:%M:%SZ"
MOST_DAYS = 366


@dataclass(frozen=True)
class Invitation:
    """An invitation, as the server knows it.

    Parameters
    ----------
    number : such as ``20260101-120000/7``, by which people speak of it.
    token_hash : of its token, in hexadecimal.
    until : after which nobody joins with it, such as ``2026-01-15T12:00:00Z``.
    client : whose it is; "" for whoever has it.
    federation : the federation's name, for people.
    url : where devices come, such as ``https://fl.example.org:9092``.
    """

    number: str
    token_hash: str
    until: str
    client: str
    federation: str
    url: str

    @property
    def superlink(self) -> str:
        """Host and port at which SuperNodes come."""
        return urlsplit(self.url).netloc

    def ended(self, now: datetime) -> bool:
        """Whether it is too late to join with it."""
        return now > datetime.strptime(self.until, _TIME).replace(tzinfo=UTC)


_COLUMNS = [field.name for field in fields(Invitation)]


def new_invitations(
    url: str, federation: str, days: float, clients: Sequence[str]
) -> Mapping[str, Invitation]:
    """Return new invitations, by code.

    Parameters
    ----------
    url : as :func:`checked_url` returns it.
    days : after which they end.
    clients : whose each is, by name; "" for whoever has it.

    Raises ConfigError if there are none, a name is none or comes twice, or the days are too few or
    too many.
    """
    named = [client for client in clients if client]
    wrong = next((client for client in named if not is_client_id(client)), None)
    if wrong is not None:
        raise ConfigError(f"invite: got the name {wrong!r}, expected {CLIENT_ID_RULE}")
    if not clients or len(named) != len(set(named)):
        raise ConfigError(f"invite: got {len(clients)} invitations, expected one for each person")
    if not 0 < days <= MOST_DAYS:
        raise ConfigError(f"days: got {days:g}, expected above 0, at most {MOST_DAYS}")
    now = datetime.now(UTC)
    until = (now + timedelta(days=days)).strftime(_TIME)
    made = {new_code(): client for client in clients}
    return {
        code: Invitation(
            f"{now:%Y%m%d-%H%M%S}/{number}",
            token_hash(token_of(code)),
            until,
            client,
            federation,
            url,
        )
        for number, (code, client) in enumerate(made.items(), 1)
    }


def folder_of_invitations(folder: Path) -> None:
    """Make a server's folder of invitations where there is none; RunError: it cannot be made."""
    try:
        make_folder(folder)
    except OSError as error:
        raise RunError(f"{folder}: {error.strerror}, expected a folder of invitations") from error


def write_batch(folder: Path, invitations: Sequence[Invitation]) -> Path:
    """Write a batch into a server's folder, and return its file.

    Raises RunError if there is a batch of this second already, or it cannot be written.
    """
    path = folder / f"{invitations[0].number.partition('/')[0]}.csv"
    folder_of_invitations(folder)
    if path.exists():
        raise RunError(f"{path}: a batch of this second is there; try again")
    _write(path, invitations)
    return path


def read_batches(folder: Path) -> dict[str, Invitation]:
    """Return all invitations of a server's folder, by the hash of their token.

    Raises RunError if the folder or a batch cannot be read.
    """
    every = [one for path in sorted(folder.glob("*.csv")) for one in _read(path)]
    return {one.token_hash: one for one in every}


def withdraw(folder: Path, numbers: Iterable[str]) -> list[str]:
    """Take invitations out of a server's folder, so that nobody joins with them; return theirs.

    Parameters
    ----------
    numbers : of invitations, or of whole batches.

    Raises RunError if there is none of a number. Then all stay.
    """
    wanted = set(numbers)
    batches = {path: _read(path) for path in sorted(folder.glob("*.csv"))}
    every = [one.number for batch in batches.values() for one in batch]
    known = {*every, *(number.partition("/")[0] for number in every)}
    if missing := sorted(wanted - known):
        raise RunError(f"{folder}: got the number {missing[0]}, expected one that is listed")
    for path, batch in batches.items():
        kept = [one for one in batch if not wanted & {one.number, one.number.partition("/")[0]}]
        if len(kept) < len(batch):
            _write(path, kept)
    return [one for one in every if wanted & {one, one.partition("/")[0]}]


def _write(path: Path, invitations: Sequence[Invitation]) -> None:
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(asdict(one) for one in invitations)
    write_whole(path, text.getvalue().encode())


def _read(path: Path) -> list[Invitation]:
    try:
        table = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        rows = [Invitation(**{name: row[name] or "" for name in _COLUMNS}) for row in table]
        for one in rows:
            one.ended(datetime.now(UTC))
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{path}: got no batch of invitations ({error}), expected one") from error
    return rows
