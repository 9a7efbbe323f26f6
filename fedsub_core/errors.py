"""Errors at the borders: every one names where, what came and what was expected."""

from __future__ import annotations


class FedSubError(Exception):
    """Base of every error that FedSub raises on purpose."""


class ConfigError(FedSubError):
    """A configuration key or value that cannot be used."""


class DataError(FedSubError):
    """A federation or a client's data file that cannot be used."""


class RunError(FedSubError):
    """A run folder that cannot be started, resumed or read."""


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
        What came and what was expected.
    """

    def __init__(self, client: str, round: int, what: str, got: str, expected: str) -> None:
        super().__init__(
            f"client {client!r}, round {round}: {what}: got {got}, expected {expected}"
        )
        self.client, self.round, self.what = client, round, what
        self.got, self.expected = got, expected
