"""What a card says that a round costs is what a round computes, within a fifth.

Counted in multiplications of matrices, in which all the time of large models goes: a count, and so
no measurement that a busy machine could spoil.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fedsub.testing.cover import device, in_turn, of
from fedsub.testing.runs import people
from fedsub_client.cohort import Cohort
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig
from fedsub_core.kernels import library
from fedsub_core.methods.table import METHODS
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Kind

TURN = Turn(1, 9, 0)


def in_place(into: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
    """Count ``into.baddbmm_(a, b)``: [clients, n, k] by [clients, k, m]."""
    return int(2 * a[0] * a[1] * a[2] * b[2])


MULTIPLICATIONS = {torch.ops.aten.baddbmm_: in_place}


def flops(work: Callable[[], object]) -> int:
    """Count what some work multiplies and adds; only PyTorch's products can be counted."""
    counter = FlopCounterMode(display=False, custom_mapping=MULTIPLICATIONS)
    with library.switched_off(), counter:
        work()
    return int(counter.get_total_flops())


def one_client(name: str, epochs: int, **hyper: Any) -> Cohort:
    """Return a client of many batches, so that a short last one hardly counts."""
    own = replace(METHODS[name].agreed(), **hyper)
    keys: dict[str, Any] = dict(device="cpu", epochs=epochs, lr=0.01, batch_size=8, train_share=1.0)
    config = RunConfig(method=name, beside="", hyper={name: own}, **keys)
    federation, settings = people(samples=200), config.device_settings(name)
    parts = split_client(federation.clients["p1"], federation.card, settings.split)
    return make_cohort(settings, federation.card, [parts])


def received(cohort: Cohort) -> list[Bundle]:
    """Return a download with all whole tensors that may be missing, such as peers' models."""
    optional = {n: d for n, d in cohort.receives.items() if d.optional and d.kind is Kind.DENSE}
    zeros = {name: Floats(np.zeros(one.shape, np.float32)) for name, one in optional.items()}
    return [Bundle(tensors=zeros)]


def round_of(cohort: Cohort) -> int:
    """Count what a round costs."""
    return flops(lambda: cohort.fit(TURN, None, [0], received(cohort)))


def evaluation_of(cohort: Cohort) -> int:
    """Count what a test of somebody who trained costs: it is sent models only to test them."""
    sent = received(cohort) if cohort.learner.hyper.tested == "received" else [Bundle()]
    return flops(lambda: cohort.personalised(TURN, None, [0], sent))


@cache
def epoch() -> int:
    """Count what an epoch of training alone costs, the unit of what cards say."""
    return round_of(one_client("local", 1))


def check_cost(name: str, epochs: int = 1, **hyper: Any) -> None:
    """Check what a card says of a method with these hyperparameters."""
    said = METHODS[name].cost(METHODS[name].hyperparameters(**hyper), epochs)
    assert round_of(one_client(name, epochs, **hyper)) / epoch() == pytest.approx(
        said.round, rel=0.2
    )
    adapting = evaluation_of(one_client(name, epochs, **hyper)) / epoch()
    # A few steps, as Per-FedAvg's one, are less than a card says.
    assert adapting == pytest.approx(said.evaluation, rel=0.2, abs=0.05)


class CostTests:
    """What a round costs, of methods that train."""

    @of(device)
    @in_turn("epochs", [1, 2])
    def test_a_round_costs_what_the_card_says(self, name: str, epochs: int) -> None:
        """What trains nothing has no epochs: it solves by NumPy's products, not counted here."""
        if METHODS[name].trains:
            check_cost(name, epochs)
