"""What a run leaves, on the server and on its devices, compared bit for bit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from fedsub.testing.engine_tests import as_in_one_process
from fedsub_client.loaded_model import load_model
from fedsub_server.rundb import RunDatabase

Deployment = Any  # of conftest.py

#: What the server counts of messages that got lost; all else must not differ.
LOST = ("messages_resent", "late_replies", "slow_replies")


def metrics_of(database: Path) -> dict[Any, float]:
    """Return all metrics but the bytes of Flower's frame, in which there are ids of its own."""
    with RunDatabase(database) as opened:
        return {
            (row.round, row.client, row.metric, row.label): row.value
            for row in opened.metrics()
            if not row.metric.endswith("_flower")
        }


def assert_equal(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Check that tensors are equal bit for bit, whatever keys there are and who was late."""
    ours = as_in_one_process(ours)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name


def assert_equal_devices(
    deployment: Deployment, round: int, expected: Mapping[str, Any], models: Path
) -> None:
    """Check what each device has saved in `round`, its personal model in it."""
    for client in deployment.rehearsal.clients:
        saved = deployment.saved(client)
        assert saved.round == round
        assert_equal(saved.state, expected[f"client/{client}"])
        assert_equal(saved.model.params, load_model(models / f"{client}.safetensors").params)
        assert sum(tensor.numel() for tensor in saved.model.params.values()) > 10_000
