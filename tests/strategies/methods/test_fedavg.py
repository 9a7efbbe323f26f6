"""FedAvg over real rounds, against plain PyTorch written out client by client."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from torch import nn

from fedsub_client.split_client import SplitClient
from fedsub_core.errors import RunError
from fedsub_core.models.kinds import mlp
from fedsub_core.seeds import generator
from fedsub_core.wire.v2 import exchange_pb2 as pb

from ..finished_run import MakePeople, RunMethod
from ..tampered_grid import Reply, Tamper

SEED, LR, MOMENTUM, BATCH = 5, 0.05, 0.8, 16


def network(params: dict[str, torch.Tensor]) -> nn.Sequential:
    """Return PyTorch's own model of these parameters."""
    net = nn.Sequential(
        *(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 3))
    )
    net.load_state_dict(dict(zip(net.state_dict(), params.values(), strict=True)))
    return net


def reference(clients: Sequence[SplitClient], rounds: int) -> list[dict[str, torch.Tensor]]:
    """Return the global model after each round: torch's SGD on every client, weighted mean."""
    x = np.concatenate([c.train_x for c in clients]).astype(np.float64)
    mean, std = x.mean(0), x.std(0)
    start = {name: t[0] for name, t in mlp(4, 3).init(1, SEED).items()}
    models = []
    for round in range(1, rounds + 1):
        trained, sizes = [], []
        for c in clients:
            net = network(start)
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


def test_two_rounds_equal_plain_torch(people: MakePeople, run_method: RunMethod) -> None:
    federation = people(((0, 1, 2), (0, 1), (1, 2)))
    keys: dict[str, Any] = {"seed": SEED, "lr": LR, "momentum": MOMENTUM, "batch_size": BATCH}
    # Of three people who has most samples would be shortened.
    keys |= {"epochs": 2, "standardise": "federation", "robust": "none"}
    run = run_method(federation, "fedavg", rounds=2, **keys)
    clients = run.clients
    assert len({len(c.train_y) for c in clients}) == 3 and any(len(c.train_y) % 16 for c in clients)
    expected = reference(clients, 2)
    start = mlp(4, 3).init(1, SEED)
    for round, model in enumerate(expected):
        assert run.states[round].keys() == model.keys()
        for name, tensor in run.states[round].items():
            torch.testing.assert_close(tensor, model[name], rtol=1e-4, atol=2e-6)
            assert (tensor - start[name][0]).abs().max() > 1e-3


def test_the_first_download_is_the_model_of_the_seed(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", rounds=1, seed=SEED)
    for name, tensor in mlp(4, 3).init(1, SEED).items():
        for client in ("p1", "p4"):
            assert (run.grid.downloads[1, client].whole(name) == tensor[0].numpy()).all()


def test_everybody_is_evaluated_with_the_new_global_model(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", rounds=2)
    net = network(run.states[-1])
    for c in run.clients:
        x = torch.from_numpy((c.test_x - run.told("mean")) / run.told("std"))
        logits, y = net(x), torch.from_numpy(c.test_y)
        loss = nn.functional.cross_entropy(logits, y).item()
        assert run.metric("loss")[2, c.client] == pytest.approx(loss, rel=1e-5)
        right = (logits.argmax(1) == y).double().mean().item()
        assert run.metric("accuracy")[2, c.client] == pytest.approx(right)


def of_p2(change: Callable[[pb.Bundle], object]) -> Tamper:
    """Change p2's upload of round 1; the other replies pass."""

    def tamper(reply: Reply) -> Message:
        if (reply.kind, reply.client, reply.round) != (MessageType.TRAIN, "p2", 1):
            return reply.message
        upload = reply.bundle().message
        change(upload)
        return reply.with_bundle(upload)

    return tamper


def transpose(upload: pb.Bundle) -> None:
    shape = list(upload.tensors[0].shape)
    del upload.tensors[0].shape[:]
    upload.tensors[0].shape.extend(shape[::-1])


@pytest.mark.parametrize(
    "change",
    [
        lambda upload: upload.tensors.pop(),
        lambda upload: upload.tensors.extend([upload.tensors[0]]),
        lambda upload: setattr(upload.tensors[0], "name", "linear9.weight"),
        transpose,
        lambda upload: setattr(upload, "examples", 0),
        lambda upload: setattr(upload.tensors[1], "values", b"\xff" * 512),
    ],
    ids=["missing", "twice", "unknown", "transposed", "no samples", "nan"],
)
def test_a_bad_model_is_refused_and_does_not_count(
    people: MakePeople, run_method: RunMethod, change: Callable[[pb.Bundle], object]
) -> None:
    bad = run_method(people(), "fedavg", tamper=of_p2(change), rounds=1)
    assert bad.refusals == {"p2": 1}

    def silent(reply: Reply) -> Message | None:
        return None if (reply.kind, reply.client) == (MessageType.TRAIN, "p2") else reply.message

    absent = run_method(people(), "fedavg", tamper=silent, rounds=1)
    for name, tensor in bad.states[0].items():
        assert torch.equal(tensor, absent.states[0][name])


def test_a_model_of_one_client_is_its_upload(people: MakePeople, run_method: RunMethod) -> None:
    def only_p3(reply: Reply) -> Message | None:
        return reply.message if reply.kind != MessageType.TRAIN or reply.client == "p3" else None

    run = run_method(people(), "fedavg", tamper=only_p3, rounds=1)
    sent = run.grid.uploads[1, "p3"]
    assert sent.names == list(mlp(4, 3).parameter_shapes)
    for name in sent.names:
        assert (run.states[0][name].numpy() == sent.whole(name)).all()
    with pytest.raises(RunError, match="clients sent a usable upload"):
        run_method(
            people(), "fedavg", tamper=lambda r: None if r.kind == "train" else r.message, rounds=1
        )
