"""A device half's vectors for secure sums: of most methods, an upload less the download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedsub_core.secure import uploads
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.transcript import Origin, of_bundle
from fedsub_core.wire.bundles import Bundle, Declaration


@dataclass(frozen=True)
class Repeated:
    """A repeated round, for which a vector is there already.

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


class Vectors:
    """The part of a learner that secure sums need."""

    #: The tensors that the method's card says a device sends.
    sends: Declaration

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return one client's vector for a secure sum of uploads: its upload less the download.

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
        """Return the name of a vector that stays the same from round to round; "" if it changes.

        All sums of such a vector in a run must be of the same people. Two that differ in one
        person would tell what that one added. Models change, so they have no name.
        """
        return ""

    def told_alike(self, received: Bundle) -> Bundle:
        """Return the part of a download that all who are in a sum share; here all of it.

        Of the rest, the server may tell one person something else, unseen.
        """
        return received

    def outside(self, received: Bundle) -> int:
        """Return the round of the sum in which, by a download, its receiver was not; 0: of none.

        The receiver then adds zeros in place of what that sum counted.
        """
        return 0

    def origin(self, received: Bundle) -> Origin:
        """Return what a client's vector after a download is, and was made of."""
        alike = of_bundle(self.told_alike(received))
        return Origin(self.once(received), alike, self.outside(received))
