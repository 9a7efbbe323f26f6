"""What a run must remember beside its method's own state, to go on in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedsub_core.wire.references import Reference, reference_tensors, split_references
from strategies.rounds.agreement import AGREED, Agreement
from strategies.rounds.attendance import ATTENDANCE, Attendance
from strategies.rounds.awaited import LATE, UploadTimes
from strategies.rounds.identity import IDENTITY, Identities
from strategies.rounds.noise_ledger import NOISED, NoiseLedger
from strategies.rounds.patience import PATIENCE, Patience

#: Prefixes of who trained, and of who trains no more, in the server's state.
TRAINED, LEFT_OUT = "trained.", "left-out."


@dataclass
class Memory:
    """The memory of a run, beside its method's own state.

    Parameters
    ----------
    agreed : what was agreed on before the first round; None before it.
    patience : who is asked less often.
    identities : whose key is whose.
    references : by client, what differences in messages are from.
    trained : who has trained in some round, where few are drawn for each.
    left_out : who trains no more, because it led the others astray.
    noise : of means with noise.
    attendance : how often people are there and answer, where they are drawn by it.
    upload_times : whose upload may come late, and who has a pause.
    """

    agreed: Agreement | None = None
    patience: Patience = field(default_factory=Patience)
    identities: Identities = field(default_factory=Identities)
    references: dict[str, Reference] = field(default_factory=dict)
    trained: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    noise: NoiseLedger = field(default_factory=NoiseLedger)
    attendance: Attendance = field(default_factory=Attendance)
    upload_times: UploadTimes = field(default_factory=UploadTimes)

    def forget(self, client: str) -> None:
        """Forget a client; the scaling that it had a part in stays."""
        if self.agreed is not None:
            self.agreed = replace(self.agreed, unseen=self.agreed.unseen - {client})
        self.patience.forget(client)
        self.identities.forget(client)
        self.references.pop(client, None)
        self.trained -= {client}
        self.left_out -= {client}
        self.noise.forget(client)
        self.attendance.forget(client)
        self.upload_times.forget(client)

    def tensors(self) -> dict[str, Tensor]:
        """Return the memory as plain named tensors, to stand beside the method's."""
        agreed = {} if self.agreed is None else self.agreed.tensors()
        kept = agreed | self.patience.tensors() | self.identities.tensors() | self.noise.tensors()
        kept |= self.attendance.tensors() | self.upload_times.tensors()
        for prefix, clients in ((TRAINED, self.trained), (LEFT_OUT, self.left_out)):
            if clients:
                names = json.dumps(sorted(clients)).encode()
                kept[f"{prefix}clients"] = torch.frombuffer(bytearray(names), dtype=torch.uint8)
        return kept | reference_tensors(self.references)

    @classmethod
    def split(cls, tensors: Mapping[str, Tensor]) -> tuple[Memory, dict[str, Tensor]]:
        """Return the memory in tensors, and the tensors that are the method's."""
        references, own = split_references(tensors)
        agreed = {name: tensor for name, tensor in own.items() if name.startswith(AGREED)}
        memory = cls(
            Agreement.of(agreed) if agreed else None,
            Patience.of(own),
            Identities.of(own),
            references,
            _clients(own.get(f"{TRAINED}clients")),
            _clients(own.get(f"{LEFT_OUT}clients")),
            NoiseLedger.of(own),
            Attendance.of(own),
            UploadTimes.of(own),
        )
        ours = (AGREED, PATIENCE, IDENTITY, TRAINED, LEFT_OUT, NOISED, ATTENDANCE, LATE)
        return memory, {name: t for name, t in own.items() if not name.startswith(ours)}


def _clients(kept: Tensor | None) -> frozenset[str]:
    return frozenset() if kept is None else frozenset(json.loads(bytes(kept.tolist())))
