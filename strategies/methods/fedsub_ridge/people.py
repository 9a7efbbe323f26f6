"""What the server keeps of each person: its sums as they came, its equations, and what it knows.

A person's tensors stand under keys of its own, ``<name>/<client>``: who sends anew, or is
forgotten, leaves all others' where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.errors import ConfigError
from fedsub_core.mapped_file import let_go
from fedsub_core.method_parts.ridge_tensors import CROSS, EQUATIONS, EVERYBODY, GRAM, SHIFTS
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.on_disk import as_it_lies
from strategies.rounds.server_half import State

FACTS = "facts"
#: A person's tensors.
OWN = (FACTS, GRAM, CROSS, SHIFTS, EQUATIONS)


@dataclass(frozen=True)
class Facts:
    """What the server knows of a person.

    Parameters
    ----------
    samples : in the person's sums.
    trusted : of these, as many as the person may have by the handshake.
    version : the person's own name for these samples.
    answered : version of everybody's sums that its equations are for; 0: it has none.
    sent : version of all that was sent to it last, in a round that it answered; 0: nothing.
    """

    samples: int = 0
    trusted: int = 0
    version: int = 0
    answered: int = 0
    sent: int = 0


def key(name: str, client: str) -> str:
    """Return under what a person's tensor stands in the state."""
    return f"{name}/{client}"


def people(state: State) -> list[str]:
    """Return the people whose sums the server holds, ascending."""
    return sorted(k.partition("/")[2] for k in state if k.startswith(f"{FACTS}/"))


def facts(state: State, client: str) -> Facts | None:
    """Return the facts of a person; None where it has sent nothing yet."""
    kept = state.get(key(FACTS, client))
    return None if kept is None else Facts(*kept.tolist())


def noted(client: str, known: Facts) -> State:
    """Return a part of the state: what is known of a person."""
    return {key(FACTS, client): torch.tensor(astuple(known))}


def facts_of(upload: Bundle, before: Facts | None) -> Facts:
    """Return the facts of a person who sent sums; `upload.examples` are the samples trusted."""
    samples = came(upload).samples
    trusted, version = min(samples, upload.examples), upload.version
    return replace(before or Facts(), samples=samples, trusted=trusted, version=version)


def sums_noted(client: str, upload: Bundle) -> State:
    """Return a part of the state: a person's sums as they came."""
    sums = came(upload)
    own: dict[str, NDArray[Any]] = {GRAM: sums.gram, CROSS: sums.cross, SHIFTS: sums.shifts}
    return {key(name, client): as_it_lies(array) for name, array in own.items()}


def equations_noted(client: str, upload: Bundle) -> State:
    """Return a part of the state: a person's equations as they came."""
    return {key(EQUATIONS, client): torch.from_numpy(upload.floats(EQUATIONS).copy())}


def without(state: State, client: str) -> State:
    """Return the state without a person's tensors."""
    gone = {key(name, client) for name in OWN}
    return {name: tensor for name, tensor in state.items() if name not in gone}


def came(upload: Bundle) -> Rounded:
    """Return the sums in an upload."""
    shifts = upload.floats(SHIFTS).astype(np.int64)
    return Rounded(upload.whole(GRAM), upload.whole(CROSS), shifts)


def held(state: State, client: str) -> Rounded:
    """Return a person's sums."""
    gram, cross, shifts = (state[key(name, client)].numpy() for name in (GRAM, CROSS, SHIFTS))
    return Rounded(gram, cross, shifts)


def holders(state: State) -> NDArray[np.float32]:
    """Return how many people have samples of each class, and how many there are, [classes + 1]."""
    some = [state[key(CROSS, client)].numpy()[:, 0] > 0 for client in people(state)]
    return np.append(np.sum(some, 0), len(some)).astype(np.float32)


def having(state: State, classes: int) -> list[str]:
    """Return the people who have samples of others than the first so many classes, ascending."""
    return [c for c in people(state) if state[key(CROSS, c)][classes:, 0].any()]


def with_classes(state: State, nobody: Statistics) -> State:
    """Return the state with rows of further classes in all sums, 0: as many as `nobody` has.

    Raises ConfigError if everybody's are of other features.
    """
    (classes, wide), found = nobody.cross.shape, dict(state)
    got = state[f"{EVERYBODY}.{CROSS}"].shape[1] - 1
    if got != wide - 1:
        raise ConfigError(
            f"fedsub-ridge: features of a run that is gone on from: got {got}, expected {wide - 1}"
        )
    for name, tensor in state.items():
        if name.partition("/")[0] in (CROSS, f"{EVERYBODY}.{CROSS}") and len(tensor) < classes:
            found[name] = torch.cat(
                [tensor, tensor.new_zeros(classes - len(tensor), *tensor.shape[1:])]
            )
    return found


def width(state: State, client: str) -> int:
    """Return how many features a person's sums are of."""
    return int(state[key(CROSS, client)].shape[1]) - 1


def counted(state: State, client: str, counts_as: Mapping[str, int]) -> Statistics:
    """Return the statistics that a person adds to sums, of whose samples so many count."""
    known = facts(state, client)
    assert known is not None
    found, gram = held(state, client).counted(known.samples, counts_as[client]), key(GRAM, client)
    let_go(state[gram].data_ptr(), state[gram].nbytes)  # one person's at a time
    return found


def equations(state: State, client: str) -> NDArray[np.float32] | None:
    """Return a person's equations in a row; None where there are none yet."""
    kept = state.get(key(EQUATIONS, client))
    return None if kept is None else kept.numpy()
