"""Means that carry what they are over."""

import math

import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.aggregates import Aggregate, mean_over_clients, mean_over_samples


def test_the_mean_over_nobody_is_nan_and_adds_nothing() -> None:
    nobody = mean_over_clients(torch.tensor([torch.nan]), torch.tensor([0]))
    assert math.isnan(nobody.value) and nobody.weight == 0
    somebody = Aggregate(0.5, 3, "clients")
    assert nobody + somebody == somebody + nobody == somebody


def test_aggregates_of_parts_add_up_to_that_of_the_whole() -> None:
    values, examples = torch.tensor([0.2, 0.4, 0.9]), torch.tensor([1, 2, 7])
    for mean in (mean_over_clients, mean_over_samples):
        parts = mean(values[:1], examples[:1]) + mean(values[1:], examples[1:])
        whole = mean(values, examples)
        assert (parts.weight, parts.unit) == (whole.weight, whole.unit)
        assert parts.value == pytest.approx(whole.value)


def test_a_mean_over_clients_and_one_over_samples_cannot_be_added() -> None:
    with refused(ValueError, "mean over clients", "mean over samples"):
        Aggregate(0.5, 3, "clients") + Aggregate(0.5, 30, "samples")
