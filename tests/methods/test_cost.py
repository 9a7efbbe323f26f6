"""What a card says that a round costs, whatever the hyperparameters."""

from typing import Any

import pytest

from fedsub.testing import battery
from fedsub.testing.cost_tests import CostTests, check_cost
from fedsub_core.methods.table import HOUSE, METHODS

TestCosts = battery(
    *(name for name in HOUSE if METHODS[name].trains), parts=(CostTests,), cover=True
)


@pytest.mark.parametrize(
    ("name", "hyper"),
    [
        ("ditto", {"personal_epochs": 3}),
        ("fedrep", {"head_epochs": 4}),
        ("perfedavg", {"first_order": False}),
        ("pfedme", {"personal_steps": 2}),
        ("fedavg-finetune", {"finetune": "head", "finetune_epochs": 2}),
        ("fedavg-finetune", {"finetune": "head-then-all", "finetune_epochs": 2}),
        ("fedfomo", {"tested": "received", "peer_models": 2, "validation": 0.3}),
        ("fedsub", {"relevance": "naive", "relevance_samples": 0}),
        ("fedsub", {"relevance": "lrp-a1b0", "relevance_samples": 0}),
        ("fedsub", {"relevance_samples": 0}),
    ],
)
def test_hyperparameters_are_counted(name: str, hyper: dict[str, Any]) -> None:
    check_cost(name, **hyper)
