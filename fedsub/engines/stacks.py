"""Stacks: which clients train together. They are of like sizes, and of one capacity."""

import math
from collections.abc import Sequence
from itertools import pairwise

from fedsub_client.split_client import SplitClient

#: Most clients per stack. On a CPU eight models and their batch stay in a core's cache; a GPU wants
#: as many at once as there are.
CHUNK = {"cpu": 8, "cuda": 512}
#: So many times the least samples of a stack are its most. Stacks are padded to the longest, which
#: costs a CPU time; a GPU loses more by going through more stacks.
LIKE = {"cpu": 4.0, "cuda": math.inf}


def by_size(clients: Sequence[SplitClient]) -> list[SplitClient]:
    """Return clients of one capacity together, and in these of like sizes; ties by id.

    What they keep is then of one shape, and a stack is padded to its longest.
    """
    return sorted(clients, key=lambda c: (-c.capacity, -len(c.train_y), c.client))


def stacks_of(
    capacities: Sequence[float], counts: Sequence[int], most: int, like: float
) -> list[slice]:
    """Cut clients, in the order of :func:`by_size`, into stacks of at most `most` like ones.

    Parameters
    ----------
    capacities, counts : each client's, and its samples; a stack's capacity is one.
    like : how many times a stack's least its most samples may be.
    """
    begins = list[int]()
    for i, (capacity, samples) in enumerate(zip(capacities, counts, strict=True)):
        first = begins[-1] if begins else i
        other = capacities[first] != capacity or counts[first] > like * samples
        if not begins or i - first == most or other:
            begins.append(i)
    return [slice(begin, end) for begin, end in pairwise([*begins, len(counts)])]


def stack_size(people: int, device: str, threads: int) -> int:
    """Return the largest number of people of a stack, with which all threads' waves are as full."""
    waves = -(-people // (threads * CHUNK[device]))
    return -(-people // (threads * waves))


def like_stacks(clients: Sequence[SplitClient], size: int, device: str) -> list[slice]:
    """Return the stacks of clients, in the order of :func:`by_size`, of at most `size` each."""
    counts = [len(one.train_y) for one in clients]
    return stacks_of([one.capacity for one in clients], counts, size, LIKE[device])
