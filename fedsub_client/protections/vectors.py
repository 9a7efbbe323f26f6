"""A device half's vectors for secure sums: changes of uploads, and what each person counts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedsub_core.addend_numbers import Bools, asked_for, digest_of
from fedsub_core.addends import Addend
from fedsub_core.pytorch import Tensor
from fedsub_core.secure import slots, uploads
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels
from fedsub_core.secure.transcript import Origin, of_bundle
from fedsub_core.wire.bundles import Bundle, Declaration

#: Of an upload that becomes a vector: the numbers in which each person counts once.
NUMBERS = "numbers"
#: In a state: a digest of which of these each person was asked for last, int64 [clients].
ASKED_FOR = "counted.asked"


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
    #: What it says a person adds to sums; (): the changes of all these tensors, by samples.
    adds: Sequence[Addend]

    def vector(self, upload: Bundle, received: Bundle, levels: Levels) -> Words:
        """Return one client's vector for a secure sum of uploads: its upload less the download.

        ``NO_VECTOR`` where it may not: then the client is silent, and not in the sum.

        Raises ValueError if there is nothing that it could have moved from, or nothing was asked
        for.
        """
        if not self.adds:
            return uploads.of_upload(upload, received, self.sends, levels)
        if NUMBERS not in upload.tensors or not np.isfinite(upload.floats(NUMBERS)).all():
            return uploads.NO_VECTOR
        # Where nothing is weighted by samples, nobody tells how many they are.
        counted = upload if self.weighted else replace(upload, examples=1)
        moved = uploads.of_upload(counted, received, self.weighted, levels)
        return slots.with_slots(moved, upload.floats(NUMBERS), levels)

    def vector_again(self, vector: Words, again: Repeated) -> Words:
        """Return a vector for a round that is repeated; ``NO_VECTOR`` where it asks for others."""
        if not self.adds:
            return again.levels.again(vector, again.before, again.examples)
        asked = self.asked(again.received)
        digest = digest_of(asked_for(self.adds, asked)) if asked else 0
        if not digest or digest != again.state[ASKED_FOR][0]:
            return uploads.NO_VECTOR
        weighted = uploads.length(self.weighted) - BESIDE
        examples = again.examples if weighted else 1
        return slots.again(vector, weighted, again.before, again.levels, examples)

    def asked(self, received: Bundle) -> Mapping[str, Bools]:
        """Return the masks of a download to somebody in a sum; none to others."""
        masks = [added.mask for added in self.adds if added.mask]
        return {m: received.bits(m) for m in masks} if masks[0] in received.tensors else {}

    @cached_property
    def weighted(self) -> Declaration:
        """The tensors of which changes are added up, by samples, beside what is counted once."""
        return {added.name: self.sends[added.name] for added in self.adds if added.weighted}

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
        """Return the origin of a client's vector after a download: its name and its contents."""
        alike = of_bundle(self.told_alike(received))
        return Origin(self.once(received), alike, self.outside(received))
