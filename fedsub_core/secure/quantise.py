"""What is summed: changes of numbers, weighted and rounded to whole numbers modulo 2**32.

Behind the numbers stand two more: the weight, and whether something was shortened.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from fedsub_core.secure.keys import Words

#: Slots behind the numbers.
BESIDE = 2
#: A sum stands for a number of either sign below this.
HALF = 2**31


def no_longer(change: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
    """Return a change of an L2 norm of at most `longest`, in its direction."""
    norm = float(np.linalg.norm(change))
    return change if norm <= max(longest, 0.0) else change * (max(longest, 0.0) / norm)


@dataclass(frozen=True)
class Total:
    """What a sum says.

    Parameters
    ----------
    mean : weighted mean of everybody's changes, float32 ``[n]``; zeros where nobody has weight.
    sum : of everybody's changes, each times its weight, float64 ``[n]``.
    weight : of all together.
    shortened : people of whose changes some were beyond the range, or of no use.
    """

    mean: NDArray[np.float32]
    sum: NDArray[np.float64]
    weight: int
    shortened: int


@dataclass(frozen=True)
class Levels:
    """How numbers become whole ones.

    Parameters
    ----------
    range : greatest change of a number; larger ones are shortened to it.
    weight : most that one person may weigh, in samples.
    each : levels of the range for each sample that a person weighs: a power of two, so that whole
        numbers stay whole, in a range that is one, too.
    longest : greatest L2 norm of a person's change, after it was rounded.
    """

    range: float
    weight: int
    each: int
    longest: float = inf

    @classmethod
    def of_people(cls, people: int, weight: int, range: float) -> Levels:
        """Return as many levels as sums over so many people can bear.

        Raises ValueError if there are more people, or they weigh more, than 32 bits can bear.
        """
        each = (HALF - 1) // (people * weight)
        if not each:
            raise ValueError(f"{people} people of weight {weight}: got more than 2**31 together")
        return cls(range, weight, 1 << (each.bit_length() - 1))

    def moved_by_rounding(self, numbers: int) -> float:
        """Return by how much rounding moves so many numbers at most, L2, of who weighs 1."""
        return sqrt(numbers) / 2 * self.range / self.each

    def vector(self, change: NDArray[np.floating], examples: int) -> Words:
        """Return a person's vector ``[n + 2]`` of its change ``[n]`` and how many samples it has.

        A change that holds NaN or infinite numbers counts as none, without weight.
        """
        weight = min(examples, self.weight)
        if usable := bool(np.isfinite(change).all()):
            longest = self.longest - self.moved_by_rounding(change.size)
            change = no_longer(change.astype(np.float64), longest)
            short = np.clip(change, -self.range, self.range)
        else:
            short, weight = np.zeros(change.shape), 0
        whole = np.rint(short * (weight * self.each / self.range)).astype(np.int64)
        shortened = not usable or bool((short != change).any())
        return np.append(whole, [weight, shortened]).astype(np.uint32)

    def again(self, vector: Words, before: Levels, examples: int) -> Words:
        """Return a person's vector ``[n + 2]`` of other levels as one of these.

        Parameters
        ----------
        before : the other levels, of the same range.
        examples : how many samples the person has.
        """
        old, shortened = (int(one) for one in vector[-BESIDE:])
        if not old:
            return vector
        # Who weighed less than it might have has no more samples, or is counted once as a person.
        weight = min(old if old < before.weight else examples, self.weight)
        by = weight * self.each / (old * before.each)
        moved = vector[:-BESIDE].astype(np.int32).astype(np.float64) * by
        longest = self.longest - self.moved_by_rounding(moved.size)
        moved = no_longer(moved, longest * weight * self.each / self.range)
        whole = np.rint(moved).astype(np.int64)
        return np.append(whole, [weight, shortened]).astype(np.uint32)

    def total(self, summed: Words, people: int, noised: bool = False) -> Total:
        """Return the numbers of a sum over so many people.

        Parameters
        ----------
        noised : whether it gets noise. Then nobody may learn of it whether these numbers can be,
            which have none.

        Raises ValueError if it weighs more than these people can, as where somebody sent another
        vector.
        """
        weight, shortened = (int(one) for one in summed[-BESIDE:])
        if noised:
            weight, shortened = min(weight, people * self.weight), min(shortened, people)
        if weight > people * self.weight or shortened > people:
            most = f"at most {people * self.weight} and {people}"
            raise ValueError(f"weight and shortened: got {weight} and {shortened}, expected {most}")
        numbers = summed[:-BESIDE].astype(np.int32).astype(np.float64)
        most_said = people * (self.weight * self.each + 1)
        if not noised and (largest := np.abs(numbers).max(initial=0)) > most_said:
            got, expected = largest * self.range / self.each, most_said * self.range / self.each
            raise ValueError(f"a number: got {got:g}, expected {expected:g} at most")
        mean = numbers * (self.range / (self.each * weight)) if weight else 0 * numbers
        level = self.range / self.each
        return Total(mean.astype(np.float32), numbers * level, weight, shortened)
