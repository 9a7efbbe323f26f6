"""What server and devices agreed on before the first round; it must outlive the process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsub_core.data.samples import facts_of, shape_with
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import RunError, cut

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
    before : how many of the classes the run had before it gained others, ascending; () if never.
    renewed : the last round before which the standardisation was computed anew; 0: none.
    begun_with : the name of the run with whose models this one began, by which devices know their
        own states of it; "": with none's.
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    scaling: Scaling | None
    unseen: frozenset[str]
    before: tuple[int, ...] = ()
    renewed: int = 0
    begun_with: str = ""

    def knows(self, classes: tuple[str, ...]) -> bool:
        """Whether a device with these classes can take part: the run has or once had them all."""
        return classes == self.classes or (
            len(classes) in self.before and classes == self.classes[: len(classes)]
        )

    def gaining(self, classes: tuple[str, ...]) -> Agreement:
        """Return the agreement of the run with further classes; see :func:`check_gained`."""
        check_gained(self.classes, classes, "the federation's card")
        return replace(self, classes=classes, before=(*self.before, len(self.classes)))

    def tensors(self) -> dict[str, Tensor]:
        """Return the agreement as plain named tensors, for the server's state."""
        own = facts_of(self.shape)
        facts = {"classes": self.classes, "shape": self.shape, "unseen": sorted(self.unseen), **own}
        later = {name: getattr(self, name) for name in ("before", "renewed", "begun_with")}
        facts |= {name: value for name, value in later.items() if value}
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
        before, renewed = tuple(facts.get("before", ())), facts.get("renewed", 0)
        unseen = frozenset(facts["unseen"])
        later = before, renewed, facts.get("begun_with", "")
        return cls(tuple(facts["classes"]), shape, shared, unseen, *later)


def check_gained(had: tuple[str, ...], classes: tuple[str, ...], where: str) -> None:
    """Refuse the classes of a card, `where`, that are not those a run had, and others behind them.

    Raises RunError if it lists others in the first places, or not all: labels are places in this
    list.
    """
    if classes[: len(had)] != had:
        raise RunError(
            f"{where}: classes: got {cut(classes)}, expected {cut(had)}, in this order, and new "
            "ones behind them: a label is a place in this list. Restore the card, or start a new "
            "run"
        )


def _scaling(kept: Mapping[str, Tensor], prefix: str = "") -> Scaling:
    return Scaling(kept[f"{prefix}mean"].numpy(), kept[f"{prefix}std"].numpy())
