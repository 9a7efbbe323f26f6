"""Patience with clients that do not answer, not usably, or slowly: they are asked less often."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

#: Prefix of what is kept of it in the server's state.
PATIENCE = "patience."
#: Most rounds and hours between two questions to a client: it may have come back. With a round a
#: night everybody is asked every night.
LONGEST, LONGEST_HOURS = 32, 20
#: How much of a failure a good answer makes up for. So who fails in no more than one round of five
#: is asked in every round in the long run, and nobody buys a slow round with a quick one.
MAKES_UP = 0.25
#: More failures make nobody rest longer, and who came back need not make up for them.
_MOST = LONGEST.bit_length() + 1


@dataclass
class Patience:
    """Who failed how often of late, and from which round on it is asked again.

    After the n-th failure in a row a client is asked again ``2 ** (n - 1)`` rounds later: after one
    failure in the very next round; one that never answers delays fewer and fewer rounds.
    Who answers slowly in round after round rests likewise, but a round later: it has been of use.
    After an answer that can be used and is not slow it is asked in the next round again; a quarter
    of a failure is forgotten for it (``MAKES_UP``).
    Moments are seconds since 1970; None where rounds alone count, as in a simulation.
    """

    failures: dict[str, float] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)

    def resting(self, clients: Iterable[str], round: int, now: float | None = None) -> list[str]:
        """Return the `clients` who are not asked in `round`; nobody, if it were all."""
        clients = list(clients)
        resting = [c for c in clients if self.again.get(c, 0) > round and not self._over(c, now)]
        return resting if len(resting) < len(clients) else []

    def _over(self, client: str, now: float | None) -> bool:
        """Whether a rest ends by its hours; a clock that went back ends it, too."""
        if now is None or client not in self.since:
            return False
        return not 0 <= now - self.since[client] < 3600 * LONGEST_HOURS

    def note(
        self,
        round: int,
        answered: Mapping[str, bool],
        slow: Collection[str] = frozenset(),
        now: float | None = None,
    ) -> None:
        """Note whether each client that was asked gave a usable answer, and who slowly."""
        for client, well in (dict.fromkeys(slow, True) | dict(answered)).items():
            if well and client not in slow:
                self.again.pop(client, None)
                self.since.pop(client, None)
                left = self.failures.pop(client, 0) - MAKES_UP
                if left > 0:
                    self.failures[client] = left
            else:
                failures = min(self.failures.get(client, 0) + 1, _MOST)
                self.failures[client] = failures
                doublings = max(int(failures) - (2 if well else 1), 0)
                self.again[client] = round + min(2**doublings, LONGEST)
                if now is not None:
                    self.since[client] = now

    def forget(self, client: str) -> None:
        """Forget a client's failures: it is asked in the next round."""
        for kept in (self.failures, self.again, self.since):
            kept.pop(client, None)

    def tensors(self) -> dict[str, Tensor]:
        """Return failures as plain named tensors, for the server's state; none if nobody failed."""
        if not self.failures:
            return {}
        facts = {name: kept for name, kept in vars(self).items() if kept}
        written = json.dumps(facts, sort_keys=True).encode()
        return {f"{PATIENCE}facts": torch.frombuffer(bytearray(written), dtype=torch.uint8)}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Patience:
        """Return the patience in tensors: the inverse of :meth:`tensors`."""
        if f"{PATIENCE}facts" not in tensors:
            return cls()
        return cls(**json.loads(bytes(tensors[f"{PATIENCE}facts"].tolist())))
