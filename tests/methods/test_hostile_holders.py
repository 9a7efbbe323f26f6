"""Where weak devices hold parts, one of three whole ones does not decide what only these hold."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.testing.runs import NAMES, RunMethod
from fedsub_client.cohort import Cohort
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part

EVIL, WHOLE, FAR = "p0", 3, 1e3
TEN = Federation(
    Card("ten", "a test", NAMES, ("a", "b", "c", "d")),
    {
        f"p{i}": ClientData(
            f"p{i}",
            np.random.default_rng(i).normal(size=(12, 4)).astype(np.float32),
            np.tile(np.arange(3), 4),
        )
        for i in range(10)
    },
)
WEAK = ",".join(f"p{i}=1/2" for i in range(WHOLE, 10))


class OneEach(Cohort):
    """In round 2 all send what they were sent and 1 more of each number, one of them far more."""

    def fit(
        self, turn: Turn, scaling: Any, index: Sequence[int], received: Sequence[Bundle]
    ) -> Any:
        """Train, and send something else."""
        uploads, reports = super().fit(turn, scaling, index, received)
        for place, i in enumerate(index) if turn.round == 2 else ():
            tensors: dict[str, Part] = dict(uploads[place].tensors)
            by = np.float32(FAR if self.clients[i].client == EVIL else 1.0)
            for name, part in uploads[place].tensors.items():
                begun = received[place].tensors.get(name)
                if isinstance(part, Floats) and isinstance(begun, Floats):
                    same = part.at == begun.at
                    start = begun.values if same else part.at.take(begun.values)
                    tensors[name] = replace(part, values=start + by)
            uploads[place] = replace(uploads[place], tensors=tensors)
        return uploads, reports


def all_move_one(grid: CohortGrid) -> None:
    for cohort in grid.cohorts:
        cohort.__class__ = OneEach


@pytest.mark.parametrize("name, hyper, most", [("heterofl", {}, 1.2)])
def test_one_of_three_whole_devices_adds_no_more_than_another(
    name: str, hyper: dict[str, Any], most: float, run_method: RunMethod
) -> None:
    """A number moves by 1.2 at most: of all ten 9 + 3, of three 2 + 1. Once it was 5 / 3."""
    keys: dict[str, Any] = {"rounds": 2, "lr": 1e-3, "capacities": WEAK, "prepare": all_move_one}
    run = run_method(name, TEN, hyper=hyper, **keys)
    before, after = run.states
    assert run.uploads[1].keys() == TEN.clients.keys()
    moved = torch.cat(
        [(after[n] - before[n]).flatten() for n in run.strategy.model.parameter_shapes]
    )
    assert 1.0 < moved.max() <= most + 1e-3
