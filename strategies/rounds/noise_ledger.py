"""The ledger of noise on means: what it follows from, and in how many means each person was."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

#: Prefix of the ledger in the server's state.
NOISED = "noised-means."
#: Whose rounds stand in the ledger of people who were forgotten.
FORGOTTEN = ""


@dataclass
class NoiseLedger:
    """The ledger of noise: the secret that it follows from, and the people in noisy means.

    Parameters
    ----------
    secret : nobody's who is sent means; in a simulation the run's seed. None: there is no noise.
    rounds : in how many means with noise each person was.
    """

    secret: int | None = None
    rounds: dict[str, int] = field(default_factory=dict)

    def begin(self, simulated: bool, seed: int) -> None:
        """Draw the secret, where there is none yet."""
        if self.secret is None:
            self.secret = seed if simulated else secrets.randbits(256)

    def forget(self, client: str) -> None:
        """Keep the rounds of a client, which were released, and not the client."""
        rounds = self.rounds.pop(client, 0)
        if rounds > self.rounds.get(FORGOTTEN, 0):
            self.rounds[FORGOTTEN] = rounds

    def tensors(self) -> dict[str, Tensor]:
        """Return the ledger as a plain named tensor, none where there is no noise."""
        if self.secret is None:
            return {}
        facts = json.dumps({"secret": self.secret, "rounds": self.rounds}).encode()
        return {f"{NOISED}ledger": torch.frombuffer(bytearray(facts), dtype=torch.uint8)}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> NoiseLedger:
        """Return the ledger in tensors, where others may be."""
        kept = tensors.get(f"{NOISED}ledger")
        return cls() if kept is None else cls(**json.loads(bytes(kept.tolist())))
