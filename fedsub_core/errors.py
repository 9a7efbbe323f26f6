"""Errors at the borders: every one names where, what came and what was expected."""

from __future__ import annotations

from collections.abc import Iterable

#: Characters of a text of someone else's that are repeated in an error or a log.
_SHOWN = 300


def cut(text: object) -> str:
    """Return a text that came from outside, on one line and cut to what a log can bear."""
    whole = str(text)
    line = "".join(c if c.isprintable() else " " for c in whole[:_SHOWN])
    return line if len(whole) <= _SHOWN else f"{line}... ({len(whole)} characters)"


def listed(names: Iterable[str], most: int) -> str:
    """Return names as a list in a sentence, ``a, b and 3 more``: beyond `most` they are counted."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


class FedSubError(Exception):
    """Base of every error that FedSub raises on purpose."""


class ConfigError(FedSubError):
    """A configuration key or value that cannot be used."""


class DataError(FedSubError):
    """A federation or a client's data file that cannot be used."""


class RunError(FedSubError):
    """A run folder that cannot be started, resumed or read."""


class OtherRelease(RunError):
    """A file in a form of another release, which this one does not read and leaves as it is."""


class MessageRefused(FedSubError):
    """A message of a client or of the server that was refused at the border.

    Parameters
    ----------
    client : str
        The client that sent (upload) or should receive (download) the message.
    round : int
        The round in which it arrived, from 1; 0 is the handshake.
    what : str
        The part that is wrong, such as ``"rows of layer 2"``.
    got, expected : str
        What came, cut as :func:`cut` does, and what was expected.
    """

    def __init__(self, client: str, round: int, what: str, got: str, expected: str) -> None:
        client, got = cut(client), cut(got)
        super().__init__(
            f"client {client!r}, round {round}: {what}: got {got}, expected {expected}"
        )
        self.client, self.round, self.what = client, round, what
        self.got, self.expected = got, expected


class NumbersRefused(MessageRefused):
    """A message whose numbers are NaN, infinite or huge, as training that diverges leaves them."""
