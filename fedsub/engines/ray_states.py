"""What the clients of Ray's workers keep, as the driver holds it: alike once, many's in files."""

from collections import Counter
from weakref import WeakValueDictionary

import torch

from fedsub.engines.ray_worker import States, content
from strategies.rounds.on_disk import PORTION, written


class KeptStates:
    """The states of all workers' clients, as of their last replies.

    Parameters
    ----------
    workers : how many there are.
    """

    def __init__(self, workers: int) -> None:
        #: By worker.
        self.of: list[States] = [{} for _ in range(workers)]
        #: Of these, what came since a file was written: each part of a round may be small.
        self._in_memory: list[States] = [{} for _ in range(workers)]
        #: Bytes of these at most, for to count them anew in each part would take ever longer.
        self._bytes = [0] * workers
        #: What several hold alike, by its content: each part of a round brings it anew.
        self._alike = WeakValueDictionary[bytes, torch.Tensor]()

    def put(self, w: int, states: States) -> None:
        """Hold these states of the `w`-th worker's clients in the place of all before."""
        self.of[w], self._in_memory[w], self._bytes[w] = in_files(states), {}, 0

    def keep(self, w: int, states: States) -> None:
        """Take over what some of a worker's clients keep; what many keep goes into a file.

        Raises RunError; as :func:`in_files`.
        """
        states = self._once(states)
        self.of[w] |= states
        self._in_memory[w] |= states
        self._bytes[w] += sum(tensor.nbytes for tensor in tensors_of(states))
        if self._bytes[w] < PORTION:
            return
        self._bytes[w] = 0
        if (lying := in_files(self._in_memory[w])) is not self._in_memory[w]:
            self.of[w] |= lying
            self._in_memory[w] = {}

    def _once(self, states: States) -> States:
        """Return states in which what several hold alike is what others hold already."""
        every = [tensor for own in states.values() for tensor in own.values()]
        people, of = Counter(map(id, every)), dict[int, torch.Tensor]()
        for tensor in every:
            if people[id(tensor)] > 1 and id(tensor) not in of:
                of[id(tensor)] = self._alike.setdefault(content(tensor), tensor)
        return {c: {n: of.get(id(t), t) for n, t in own.items()} for c, own in states.items()}


def in_files(states: States) -> States:
    """Return states of people whose tensors lie in a file, if they are many; each once.

    Raises RunError if they cannot be written. It names the folder, and what to do.
    """
    here = sorted(tensors_of(states), key=lambda one: -one.element_size())  # each where it may lie
    if sum(tensor.nbytes for tensor in here) < PORTION:
        return states
    lying = map(torch.from_numpy, written([tensor.numpy() for tensor in here]))
    of = dict(zip(map(id, here), lying, strict=True))
    return {client: {n: of[id(t)] for n, t in own.items()} for client, own in states.items()}


def tensors_of(states: States) -> list[torch.Tensor]:
    """Return the tensors of states, each once."""
    return list({id(tensor): tensor for own in states.values() for tensor in own.values()}.values())
