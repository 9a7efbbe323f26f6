"""What a receiver checks a message against."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.errors import MessageRefused, NumbersRefused
from fedsub_core.wire.bundles import Declaration, FloatArray, most_bytes, within
from fedsub_core.wire.references import Reference

#: Room for framing and masks beside what the declared tensors can need.
SLACK_BYTES = 64 * 1024
#: A refusal quotes at most this much of a message, which may be hostile and ends up in a log.
QUOTED = 200


@dataclass(frozen=True)
class Envelope:
    """What a receiver knows before it opens a message, and checks the message against.

    Parameters
    ----------
    client, round : whom and which round the message must name.
    reference : the receiver's end of differences; None if it holds nothing.
    limit : most bytes a message may have, also when decompressed; 0 derives it from the tensors.
    largest : greatest size of a number. Finite is not enough: sums of numbers near float32's end
        overflow in the fusion of everybody else's.
    """

    client: str
    round: int
    declared: Declaration
    reference: Reference | None = None
    limit: int = 0
    largest: float = 1e6

    @property
    def most_bytes(self) -> int:
        """The limit in force."""
        return self.limit or most_bytes(self.declared) + SLACK_BYTES

    def check_numbers(self, what: str, values: FloatArray) -> None:
        """Refuse NaN, infinite and huge numbers."""
        if not within(values, self.largest):
            got, expected = (
                "NaN, infinite or huge numbers",
                f"finite numbers up to {self.largest:g}",
            )
            raise NumbersRefused(self.client, self.round, what, got, expected)

    def refuse(self, what: str, got: object, expected: object) -> MessageRefused:
        """Return the error that says what is wrong with the message."""
        return refusal(self.client, self.round, what, got, expected)


def refusal(client: str, round: int, what: str, got: object, expected: object) -> MessageRefused:
    """Return the error for a part of a message, of which little is quoted."""
    quoted = str(got)
    if len(quoted) > QUOTED:
        quoted = f"{quoted[:QUOTED]}... ({len(quoted)} characters)"
    return MessageRefused(client, round, what, quoted, str(expected))
