"""FedAvg over real rounds, against plain PyTorch written out client by client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from torch import nn

from fedsub_core.errors import RunError
from fedsub_core.models.chain import mlp
from fedsub_core.seeds import generator

SEED, LR, MOMENTUM, BATCH = 5, 0.05, 0.8, 16


def reference(clients: list[Any], rounds: int) -> list[dict[str, torch.Tensor]]:
    """Return the global model after each round: torch's SGD on every client, weighted mean."""
    x = np.concatenate([c.train_x for c in clients]).astype(np.float64)
    mean, std = x.mean(0), x.std(0)
    start = {name: t[0] for name, t in mlp(4, 3).init(1, SEED).items()}
    models = []
    for round in range(1, rounds + 1):
        trained, sizes = [], []
        for c in clients:
            net = nn.Sequential(
                *(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 3))
            )
            net.load_state_dict(dict(zip(net.state_dict(), start.values(), strict=True)))
            optimiser = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
            features = torch.from_numpy(((c.train_x - mean) / std).astype(np.float32))
            labels = torch.from_numpy(c.train_y)
            for epoch in range(2):
                stream = generator(SEED, c.client, round, f"batches of epoch {epoch}")
                order = torch.randperm(len(labels), generator=stream)
                for rows in torch.split(order, BATCH):
                    optimiser.zero_grad()
                    torch.autograd.backward(
                        nn.functional.cross_entropy(net(features[rows]), labels[rows])
                    )
                    optimiser.step()
            trained.append([p.detach() for p in net.parameters()])
            sizes.append(len(labels))
        weights = np.array(sizes) / sum(sizes)
        for name, ps in zip(start, zip(*trained, strict=True), strict=True):
            start[name] = sum((w * p for w, p in zip(weights, ps, strict=True)), torch.zeros(()))
        models.append(dict(start))
    return models


def test_two_rounds_equal_plain_torch(people: Any, play: Any) -> None:
    federation = people(((0, 1, 2), (0, 1), (1, 2)))
    keys = {"seed": SEED, "lr": LR, "momentum": MOMENTUM, "batch_size": BATCH, "epochs": 2}
    played = play(federation, "fedavg", rounds=2, **keys)
    clients = [c for cohort in played.grid.grid.cohorts for c in cohort.clients]
    assert len({len(c.train_y) for c in clients}) == 3 and any(len(c.train_y) % 16 for c in clients)
    expected = reference(clients, 2)
    start = mlp(4, 3).init(1, SEED)
    for round, model in enumerate(expected):
        assert played.states[round].keys() == model.keys()
        for name, tensor in played.states[round].items():
            torch.testing.assert_close(tensor, model[name], rtol=1e-4, atol=2e-6)
            assert (tensor - start[name][0]).abs().max() > 1e-3


def test_everybody_is_evaluated_with_the_new_global_model(people: Any, play: Any) -> None:
    played = play(people(), "fedavg", rounds=2)
    cohort = played.grid.grid.cohorts[0]
    model = {name: t.expand(len(cohort.clients), *t.shape) for name, t in played.states[-1].items()}
    _, test = cohort._stacks(2, played.strategy.federation.scaling)
    logits = cohort.learner.predict(model, test.x)
    for i, client in enumerate(cohort.clients):
        right = logits[i].argmax(1)[test.valid[i]] == test.y[i][test.valid[i]]
        accuracy = played.metric("accuracy")[2, client.client]
        assert accuracy == pytest.approx(right.double().mean().item())


def of_p2(change: Any) -> Any:
    """Change p2's upload of round 1; the other replies pass."""

    def tamper(reply: Any) -> Message:
        if (reply.kind, reply.client, reply.round) != (MessageType.TRAIN, "p2", 1):
            return reply.message  # type: ignore[no-any-return]
        upload = reply.upload()
        change(upload)
        return reply.with_payload(upload.SerializeToString())  # type: ignore[no-any-return]

    return tamper


@pytest.mark.parametrize(
    "change",
    [
        lambda upload: upload.tensors.pop(),
        lambda upload: upload.tensors.extend([upload.tensors[0]]),
        lambda upload: setattr(upload.tensors[0], "name", "linear9.weight"),
        lambda upload: upload.tensors[0].shape.reverse(),
        lambda upload: setattr(upload, "examples", 0),
        lambda upload: setattr(upload.tensors[1], "values", b"\xff" * 512),
    ],
    ids=["missing", "twice", "unknown", "transposed", "no samples", "nan"],
)
def test_a_bad_model_is_refused_and_does_not_count(people: Any, play: Any, change: Any) -> None:
    bad = play(people(), "fedavg", tamper=of_p2(change), rounds=1)
    assert bad.strategy.mail.refusals == {"p2": 1}

    def silent(reply: Any) -> Message | None:
        return None if (reply.kind, reply.client) == (MessageType.TRAIN, "p2") else reply.message

    absent = play(people(), "fedavg", tamper=silent, rounds=1)
    for name, tensor in bad.states[0].items():
        assert torch.equal(tensor, absent.states[0][name])


def test_a_model_of_one_client_is_its_upload(people: Any, play: Any) -> None:
    def only_p3(reply: Any) -> Message | None:
        return reply.message if reply.kind != MessageType.TRAIN or reply.client == "p3" else None

    played = play(people(), "fedavg", tamper=only_p3, rounds=1)
    sent = played.grid.uploads[1, "p3"]
    for tensor in sent.tensors:
        values = np.frombuffer(tensor.values, "<f4").reshape(tuple(tensor.shape))
        assert (played.states[0][tensor.name].numpy() == values).all()
    with pytest.raises(RunError, match="clients sent a usable upload"):
        play(people(), "fedavg", tamper=lambda r: None if r.kind == "train" else r.message)
