"""Clients of several cohorts, joined in one while the others of their cohorts rest.

Where a round asks few of many, a client alone in its cohort would train alone: joined, they share
stacks again. Only who takes part has its data stacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch

from fedsub_client.cohort import Cohort

#: Each client's cohort and its place there.
Members = Sequence[tuple[Cohort, int]]


def gathered(members: Members) -> Cohort:
    """Return a cohort of clients of others, with what they keep."""
    cohort = copy(members[0][0])  # not anew: nobody's first model is to be drawn
    cohort.hold([of.clients[i] for of, i in members])
    cohort.references = [of.references[i] for of, i in members]
    cohort.state = {
        name: torch.stack([of.state[name][i] for of, i in members]) for name in cohort.state
    }
    return cohort


def give_back(cohort: Cohort, members: Members) -> None:
    """Put what the clients keep now into their own cohorts."""
    for row, (of, i) in enumerate(members):
        of.put(i, {name: tensor[row] for name, tensor in cohort.state.items()})
