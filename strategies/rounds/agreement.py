"""What server and devices agreed on before the first round; it must outlive the process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsub_core.data.samples import facts_of, shape_with
from fedsub_core.data.standardise import Scaling

#: Prefix of the agreement's tensors in the server's state.
AGREED = "federation."


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreement that holds for all rounds of a run.

    Parameters
    ----------
    classes, shape : of every client's samples.
    scaling : the pooled standardisation, None where clients do not share one.
    unseen : people held out until the last rounds.
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    scaling: Scaling | None
    unseen: frozenset[str]

    def tensors(self) -> dict[str, Tensor]:
        """Return the agreement as plain named tensors, for the server's state."""
        own = facts_of(self.shape)
        facts = {"classes": self.classes, "shape": self.shape, "unseen": sorted(self.unseen), **own}
        kept = {"facts": torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)}
        if self.scaling is not None:
            kept["mean"] = torch.tensor(self.scaling.mean)
            kept["std"] = torch.tensor(self.scaling.std)
            if (features := self.scaling.features) is not None:
                kept["features.mean"] = torch.tensor(features.mean)
                kept["features.std"] = torch.tensor(features.std)
        return {f"{AGREED}{name}": tensor for name, tensor in kept.items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Agreement:
        """Return the agreement in tensors: the inverse of :meth:`tensors`."""
        kept = {name.removeprefix(AGREED): t for name, t in tensors.items()}
        facts = json.loads(bytes(kept["facts"].tolist()))
        # A run that began before features were standardised goes on without.
        own = _scaling(kept, "features.") if "features.mean" in kept else None
        shared = replace(_scaling(kept), features=own) if "mean" in kept else None
        shape = shape_with(tuple(facts["shape"]), facts)
        return cls(tuple(facts["classes"]), shape, shared, frozenset(facts["unseen"]))


def _scaling(kept: Mapping[str, Tensor], prefix: str = "") -> Scaling:
    return Scaling(kept[f"{prefix}mean"].numpy(), kept[f"{prefix}std"].numpy())
