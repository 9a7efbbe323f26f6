"""FedProto: numbers by hand, and when it is local."""

from typing import Any

import numpy as np
import torch

from fedsub.testing.one_number import one_number
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_client.parts.embeddings import embeddings
from fedsub_core.data.stacks import Stack
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.training import CE, Batch, PrototypePull, TrainingSettings, Turn
from fedsub_core.training.objectives import Forward
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.prototypes import PrototypeServer

TURN = Turn(1, 2, 0)


def test_without_a_pull_it_is_local(run_method: RunMethod) -> None:
    own, local = run_method("fedproto", hyper={"lam": 0.0}), run_method("local")
    for client, model in local.models().items():
        assert_equal(own.models()[client], model)


def test_the_pull_is_felt_from_the_second_round_on(run_method: RunMethod) -> None:
    """In the first round there is no prototype; then the loss is there in every one."""
    pulled, free = run_method("fedproto"), run_method("fedproto", hyper={"lam": 0.0})
    torch.testing.assert_close(pulled.states[0], free.states[0], atol=1e-6, rtol=1e-5)
    for client in pulled.models():
        for key in ("linear1.weight", "linear2.weight"):
            ours, theirs = pulled.models()[client][key], free.models()[client][key]
            assert (ours - theirs).abs().max() > 1e-4
    learner, state = pulled.grid.cohorts[0].learner, pulled.grid.cohorts[0].state
    data = pulled.grid.cohorts[0].data.at(3, pulled.strategy.population.agreed.scaling)[0]
    h = embeddings(learner.model, learner.personal(state), data.x)
    pull = learner.pull(state)  # type: ignore[attr-defined]
    weight = data.valid / torch.tensor(data.counts).unsqueeze(1)
    forward = Forward({}, Batch(data.x, data.y, weight, 0), [], h)
    assert state["held"].all() and pull.loss(forward, pull.stacked()) > 1e-3


def test_one_sample_of_ones_and_a_prototype_of_zeros() -> None:
    """h = 1, rho = 0, d = 2, lam = 1: the gradient is 1 in each component of h."""
    pull = PrototypePull(torch.zeros(1, 1, 2), torch.ones(1, 1, dtype=torch.bool), 1.0)
    h = torch.ones(1, 1, 2, requires_grad=True)
    batch = Batch(torch.ones(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1), 0)
    loss = pull.loss(Forward({}, batch, [], h), pull.stacked())
    (gradient,) = torch.autograd.grad(loss, h)
    assert loss.item() == 1.0 and gradient.flatten().tolist() == [1.0, 1.0]


def test_what_is_sent_are_class_means_after_training(run_method: RunMethod) -> None:
    federation = people(((0, 1), (0, 1, 2), (1, 2), (1,)))
    run = run_method("fedproto", federation, rounds=2, hyper={"weights": "samples"})
    (cohort,) = run.grid.cohorts
    data = cohort.data.at(2, run.strategy.population.agreed.scaling)[0]
    h = embeddings(cohort.learner.model, cohort.learner.personal(cohort.state), data.x)
    for i, client in enumerate(data.clients):
        upload, n = run.uploads[-1][client], data.counts[i]
        rows, y = upload.part("prototypes"), data.y[i, :n]
        assert rows.at.rows is not None
        classes = rows.at.rows.tolist()
        assert classes == sorted(set(y.tolist()))
        assert upload.floats("counts").tolist() == y.bincount(minlength=3).tolist()
        for row, label in zip(rows.values, classes, strict=True):
            mean = h[i, :n][y == label].mean(0)
            torch.testing.assert_close(torch.from_numpy(row.copy()), mean, atol=1e-5, rtol=1e-5)


def test_counts_are_sent_only_where_asked_for(run_method: RunMethod) -> None:
    run = run_method("fedproto", rounds=1)
    assert all(set(upload.tensors) == {"prototypes"} for upload in run.uploads[0].values())


def learner_with_prototypes(predict: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return three people's state: all prototypes, of classes 0 and 2, and none."""
    model = mlp(2, 3, (2,))
    learner = one_number("fedproto", CE, TrainingSettings(), model, predict=predict)
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]], np.float32)
    two = np.array([True, False, True])
    received = [
        Bundle(tensors={"prototypes": Floats.rows(np.ones(3, bool), rows)}),
        Bundle(tensors={"prototypes": Floats.rows(two, rows[two])}),
        Bundle(),
    ]
    state = learner.receive(learner.init(3, 0), received)
    # So that the embedding is what goes in, where that is positive.
    state["model.linear1.weight"] = torch.eye(2).expand(3, 2, 2).clone()
    state["model.linear1.bias"] = torch.zeros(3, 2)
    return learner, state


def test_the_nearest_prototype_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0], [3.0, 2.0]]).expand(3, 2, 2)
    learner, state = learner_with_prototypes("nearest")
    every, two, none = learner.predict(state, x)
    # Squares over d = 2: of (1, 0) to the three it is 0, (1 + 1) / 2 and 4 / 2.
    torch.testing.assert_close(every, torch.tensor([[0.0, -1.0, -2.0], [-4.0, -5.0, -2.0]]))
    torch.testing.assert_close(two, torch.tensor([[0.0, -3.0, -2.0], [-4.0, -5.0, -2.0]]))
    head, same = learner_with_prototypes("head")
    assert torch.equal(none, head.predict(same, x)[2])


def test_a_download_replaces_the_prototypes_it_names() -> None:
    learner, state = learner_with_prototypes("head")
    row = Floats.rows(np.array([False, True, False]), np.full((1, 2), 9.0, np.float32))
    before = state["prototypes"].clone()
    after = learner.receive(state, [Bundle(), Bundle(tensors={"prototypes": row}), Bundle()])
    assert after["held"].tolist() == [[True] * 3, [True] * 3, [False] * 3]
    assert after["prototypes"][1].tolist() == [[1.0, 0.0], [9.0, 9.0], [3.0, 0.0]]
    assert torch.equal(after["prototypes"][0], before[0])
    assert torch.equal(state["prototypes"], before), "the state given stays as it is"


def test_a_run_tested_by_the_nearest_prototype(run_method: RunMethod) -> None:
    hyper = {"predict": "nearest"}
    run, head = run_method("fedproto", hyper=hyper), run_method("fedproto")
    for client, model in head.models().items():
        own = run.models()[client]
        assert_equal({name: own.pop(name) for name in model}, model)
        prototypes = run.client_state(client)["prototypes"]
        assert own.keys() == {"nearest.prototypes", "nearest.held"}
        assert torch.equal(own["nearest.prototypes"], prototypes) and prototypes.any()
    assert run.metric("loss") != head.metric("loss")
    assert all(np.isfinite(loss) for loss in run.metric("loss").values())


def test_prototypes_of_windows(run_method: RunMethod) -> None:
    model = cnn1d(2, 40, 3)
    learner = one_number("fedproto", CE, TrainingSettings(), model)
    data = Stack(("a", "b"), torch.randn(2, 9, 2, 40), torch.arange(18).view(2, 9) % 3, (9, 6))
    _, uploads, _ = learner.fit(learner.init(2, 0), [Bundle(), Bundle()], data, TURN)
    assert [u.floats("prototypes").shape for u in uploads] == [(3, 128), (3, 128)]


def test_the_server_keeps_nothing_but_means(run_method: RunMethod) -> None:
    run = run_method("fedproto")
    assert isinstance(run.strategy.half, PrototypeServer)
    assert set(run.states[-1]) == {"prototypes", "held"}
