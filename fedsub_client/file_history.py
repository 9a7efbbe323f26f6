"""What a device remembers of its person's file, to notice that it grew and to keep its split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.windows import window_seconds


@dataclass(frozen=True)
class FileHistory:
    """What a device remembers of its file, to notice that it grew and to keep its split.

    Parameters
    ----------
    sizes : samples in the file whenever it was found longer, ascending.
    digest : of the first ``sizes[-1]`` samples, their labels and times, and of what the card says
        of windows in time: of all that decides how they are split.
    """

    sizes: tuple[int, ...]
    digest: bytes

    @classmethod
    def first(cls, client: ClientData, card: Card) -> FileHistory:
        """Return the history of a file that is seen for the first time."""
        return cls((len(client.y),), _digest(client, card, len(client.y)))

    def continued(self, client: ClientData, card: Card) -> FileHistory | None:
        """Return the new history; None where the file does not continue the one seen.

        Then the old samples were changed or removed, and nothing says which of the new ones were
        trained on before.
        """
        n, known = len(client.y), self.sizes[-1]
        if n < known or _digest(client, card, known) != self.digest:
            return None
        return self if n == known else FileHistory((*self.sizes, n), _digest(client, card, n))


def _digest(client: ClientData, card: Card, n: int) -> bytes:
    digest = hashlib.blake2b(repr(client.x[:n].shape).encode(), digest_size=16)
    digest.update(client.x[:n].tobytes())
    digest.update(client.y[:n].tobytes())
    if client.t is not None:
        digest.update(client.t[:n].tobytes())
    digest.update(repr((window_seconds(client, card), card.overlap, card.time_ordered)).encode())
    return digest.digest()
