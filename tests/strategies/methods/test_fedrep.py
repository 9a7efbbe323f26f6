"""FedRep's server half: FedAvg of bodies, and whom it asks in the last round."""

import numpy as np
import pytest
import torch

from fedsub_core.models.kinds import mlp

from ..finished_run import MakePeople, RunMethod

BODY = ["linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"]


@pytest.mark.parametrize(("finetune", "asked"), [(True, [2, 2, 5]), (False, [2, 2, 2])])
def test_everybody_is_asked_in_a_last_round_that_finetunes(
    people: MakePeople, run_method: RunMethod, finetune: bool, asked: list[int]
) -> None:
    federation = people(((0, 1, 2),) * 5, samples=8)
    hyper = {"finetune": finetune}
    run = run_method(federation, "fedrep", hyper=hyper, rounds=3, clients_per_round=2)
    assert [round for round, _ in run.grid.trained] == [1, 2, 3]
    assert [len(clients) for _, clients in run.grid.trained] == asked


def test_bodies_alone_travel_and_are_averaged(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(), "fedrep", rounds=1, robust="none")  # of few, updates are shortened
    sizes = {c.client: len(c.train_y) for c in run.clients}
    assert list(run.states[0]) == BODY
    for name in BODY:
        sent = {client: run.grid.uploads[1, client].whole(name) for client in sizes}
        mean = np.average(
            [sent[c].astype(np.float64) for c in sizes], axis=0, weights=list(sizes.values())
        )
        np.testing.assert_allclose(run.states[0][name].numpy(), mean, rtol=1e-5, atol=1e-7)
    for bundle in (*run.grid.uploads.values(), *run.grid.downloads.values()):
        assert bundle.names == BODY


def test_a_last_round_that_finetunes_leaves_the_body(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedrep", hyper={"finetune": True}, rounds=2)
    for name in BODY:
        torch.testing.assert_close(run.states[1][name], run.states[0][name], rtol=1e-6, atol=1e-7)
    head = mlp(4, 3).init(1, 0)["linear3.weight"][0]
    for own in run.client_states().values():
        assert not torch.equal(own["model.linear3.weight"], head)
