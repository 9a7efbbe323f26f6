"""pFedMe's server half: how far the global model moves to the clients' mean."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.halves import HalfAlone
from fedsub_core.config.run_config import read_config
from fedsub_core.models.kinds import mlp
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.pfedme import PFedMeServer

from ..finished_run import MakePeople, RunMethod


@pytest.mark.parametrize(("beta", "expected"), [(0.5, 2.0), (1.0, 3.0), (2.0, 5.0)])
def test_the_step_by_hand(beta: float, expected: float) -> None:
    """From 1 towards a mean of (1 * 0 + 3 * 4) / 4 = 3."""
    keys: dict[str, Any] = {"method": "pfedme", "beside": "", "pfedme.beta": beta}
    config = read_config(None, keys | {"robust": "none"})  # ben adds nine times what anna does
    strategy = HalfAlone(PFedMeServer(config.server_settings("pfedme")), mlp(1, 2))
    uploads = {
        client: Bundle(n, tensors={"w": Floats(np.array([value], np.float32))})
        for client, n, value in (("anna", 1, 0.0), ("ben", 3, 4.0))
    }
    state, rows = strategy.half.aggregate(
        {"w": torch.tensor([1.0])}, strategy.round(Turn(1, 1, 0)), uploads
    )
    assert state["w"].tolist() == [expected] and rows == []


def test_with_a_step_of_one_it_averages_as_fedavg_does(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "pfedme", rounds=1, robust="none")
    sizes = {c.client: len(c.train_y) for c in run.clients}
    for name, tensor in run.states[0].items():
        sent = {client: run.grid.uploads[1, client].whole(name) for client in sizes}
        mean = np.average(
            [sent[c].astype(np.float64) for c in sizes], axis=0, weights=list(sizes.values())
        )
        np.testing.assert_allclose(tensor.numpy(), mean, rtol=1e-5, atol=1e-7)
