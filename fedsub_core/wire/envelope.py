"""What a receiver checks a message against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsub_core.errors import MessageRefused
from fedsub_core.models.chain import Model
from fedsub_core.wire.bundles import FloatArray
from fedsub_core.wire.memory import Memory

#: Room for names, masks and framing beside the numbers a model can need.
SLACK_BYTES = 64 * 1024
#: A refusal quotes at most this much of a message, which may be hostile and ends up in a log.
QUOTED = 200


@dataclass(frozen=True)
class Envelope:
    """What a receiver knows before it opens a message, and checks the message against.

    Parameters
    ----------
    client, round : whom and which round the message must name.
    model : gives layers, units and shapes.
    prototype_size : length of a prototype; 0 where the method sends none.
    memory : the receiver's end of differences; None if it holds nothing.
    limit : most bytes a message may have, also when decompressed; 0 derives it from the model.
    largest : greatest size of a number in rows, tensors and prototypes. Finite is not enough: sums
        of rows near float32's end overflow in the fusion of everybody else's.
    """

    client: str
    round: int
    model: Model
    prototype_size: int = 0
    memory: Memory | None = None
    limit: int = 0
    largest: float = 1e6

    @property
    def most_bytes(self) -> int:
        """The limit in force: twice the model, and for each class masks and a prototype."""
        masks = sum(layer.units + 64 for layer in self.model.affine)
        classes = self.model.classes * (4 * self.prototype_size + masks)
        return self.limit or 2 * self.model.full_bytes + classes + SLACK_BYTES

    def check_numbers(self, what: str, values: FloatArray) -> None:
        """Refuse NaN, infinite and huge numbers."""
        # A comparison with NaN is false, so one pass finds all three.
        if not (np.abs(values) <= self.largest).all():
            raise self.refuse(
                what, "NaN, infinite or huge numbers", f"finite numbers up to {self.largest:g}"
            )

    def refuse(self, what: str, got: object, expected: object) -> MessageRefused:
        """Return the error that says what is wrong with the message."""
        quoted = str(got)
        if len(quoted) > QUOTED:
            quoted = f"{quoted[:QUOTED]}... ({len(quoted)} characters)"
        return MessageRefused(self.client, self.round, what, quoted, str(expected))
