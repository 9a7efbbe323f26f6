"""Tokens: who may do what with a service, until when. At rest they are hashes.

A token is a code as invitations have (:mod:`fedsub.deploy.codes`). Whoever shows it acts in the
name and the role that it was made for.
"""

import getpass
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fedsub.deploy.codes import new_code, token_hash, token_of
from fedsub.deploy.invitations import MOST_DAYS
from fedsub.service.state import ServiceFile
from fedsub_core.errors import ConfigError, FedSubError, RunError, cut

#: Each role may do what those before it may.
READER, OPERATOR, OWNER = "reader", "operator", "owner"
ROLES = (READER, OPERATOR, OWNER)
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ActRefused(FedSubError):
    """An act that was refused, and has changed nothing.

    Parameters
    ----------
    status : HTTP's.
    who : the token's name; "" where it is unknown.
    got, expected : what came, and what was expected.
    """

    def __init__(self, status: int, act: str, who: str, got: str, expected: str) -> None:
        super().__init__(f"{act}: got {got}, expected {expected}")
        self.status, self.act, self.who = status, act, who
        self.got, self.expected = got, expected


@dataclass(frozen=True)
class Caller:
    """Who acts, and in which role."""

    name: str
    role: str

    def may(self, role: str) -> bool:
        """Whether it may do what needs `role`."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True)
class Token:
    """A token, as the service knows it; times are UTC."""

    name: str
    role: str
    made: str
    until: str

    def ended(self, now: datetime) -> bool:
        """Whether it is too late to act with it."""
        return now >= datetime.strptime(self.until, _TIME).replace(tzinfo=UTC)


def owner_of_files() -> Caller:
    """Return the owner of this process, who may write the folder, so may do everything."""
    return Caller(f"{getpass.getuser()} (files)", OWNER)


def make_token(file: ServiceFile, name: str, role: str, days: float) -> str:
    """Make a token, and return its code, which is kept nowhere.

    Raises ConfigError if the name is none or taken, there is no such role, or the days are too few
    or too many.
    """
    if not _NAME.fullmatch(name):
        expected = "letters, digits, '.', '_' and '-'"
        raise ConfigError(f"token: got the name {cut(name)!r}, expected at most 64 {expected}")
    if role not in ROLES:
        raise ConfigError(f"token: got the role {cut(role)!r}, expected {', '.join(ROLES)}")
    if not 0 < days <= MOST_DAYS:
        raise ConfigError(f"days: got {days:g}, expected above 0, at most {MOST_DAYS}")
    if name in {token.name for token in tokens_of(file)}:
        raise ConfigError(f"token: got the name {name}, which another has, expected a new one")
    code, now = new_code(), datetime.now(UTC)
    row = token_hash(token_of(code)), name, role, _text(now), _text(now + timedelta(days=days))
    columns = "hash, name, role, made, until"
    file.connection.execute(f"insert into tokens ({columns}) values (?, ?, ?, ?, ?)", row)
    return code


def revoke_token(file: ServiceFile, name: str) -> None:
    """Let nobody act with a token any more; RunError: there is none of that name."""
    if not file.connection.execute("delete from tokens where name = ?", (name,)).rowcount:
        raise RunError(f"token: got the name {cut(name)!r}, expected one that is listed")


def tokens_of(file: ServiceFile) -> Sequence[Token]:
    """Return all tokens, in the order in which they were made."""
    query = "select name, role, made, until from tokens order by number"
    return [Token(*row) for row in file.connection.execute(query).fetchall()]


def caller_of(file: ServiceFile, code: str, act: str) -> Caller:
    """Return the caller that shows a code.

    Raises ActRefused if it is no token's, or the token has ended.
    """
    try:
        digest = token_hash(token_of(code))
    except ConfigError as error:
        raise ActRefused(401, act, "", "no token", "one of this service's") from error
    query = "select name, role, made, until from tokens where hash = ?"
    row = file.connection.execute(query, (digest,)).fetchone()
    if row is None:
        raise ActRefused(401, act, "", "a token that is none", "one of this service's")
    if (token := Token(*row)).ended(datetime.now(UTC)):
        got = f"the token {token.name!r}, which ended {token.until}"
        raise ActRefused(401, act, token.name, got, "one that has not ended: ask an owner")
    return Caller(token.name, token.role)


def _text(moment: datetime) -> str:
    return moment.strftime(_TIME)
