"""What a device half adds to secure sums: of most methods, how its upload moved from a download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedsub_core.secure import uploads
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.transcript import Addend, of_bundle
from fedsub_core.wire.bundles import Bundle, Declaration


@dataclass(frozen=True)
class Repeated:
    """A round that is done again, for which a vector is there already.

    Parameters
    ----------
    before, levels : by which the vector was rounded, and by which it shall be.
    examples : how many samples the person has.
    state : the one client's, after the round.
    received : the download of the repeated round.
    """

    before: Levels
    levels: Levels
    examples: int
    state: Mapping[str, Tensor]
    received: Bundle


class InSums:
    """The part of a learner that secure sums need."""

    #: The tensors that the method's card says a device sends.
    sends: Declaration

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return what one client adds to a secure sum of uploads: how it moved from a download.

        ``NO_VECTOR`` where it may not: then the client is silent, and not in the sum.

        Raises
        ------
        ValueError
            If there is nothing that it could have moved from, or nothing was asked for.
        """
        return uploads.of_upload(upload, received, self.sends, levels)

    def vector_again(self, vector: Words, again: Repeated) -> Words:
        """Return a vector for a round that is repeated; ``NO_VECTOR`` where it asks for others."""
        return again.levels.again(vector, again.before, again.examples)

    def once(self, received: Bundle) -> str:
        """Name what a client that is asked adds to a sum, if it stays the same from round to round.

        Then all sums of it in a run must be of the same people: two that differ in one person
        would tell what that one added. Of what changes, as models do: "".
        """
        return ""

    def told_alike(self, received: Bundle) -> Bundle:
        """Return what of a download all who are in a sum are told alike; here all of it.

        What is left out the server may tell one person otherwise, unseen.
        """
        return received

    def outside(self, received: Bundle) -> int:
        """Return the round of whose sum a download says that its receiver was not in it.

        Then it adds zeros in place of what was counted there. 0: it says nothing of that.
        """
        return 0

    def addend(self, received: Bundle) -> Addend:
        """Return what a client adds to a sum after a download, but for the numbers."""
        alike = of_bundle(self.told_alike(received))
        return Addend(self.once(received), alike, self.outside(received))
