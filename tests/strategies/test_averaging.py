"""Means over uploads, with numbers that can be checked in one's head."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedsub_core.wire.bundles import Bundle, Dense
from strategies.averaging import weighted_mean


def upload(examples: int, **tensors: list[float]) -> Bundle:
    parts = {name: Dense(np.array(values, np.float32)) for name, values in tensors.items()}
    return Bundle(examples, tensors=parts)


def test_one_and_three_samples_of_zero_and_four_are_three() -> None:
    """(1 * 0 + 3 * 4) / (1 + 3) = 3."""
    mean = weighted_mean({"anna": upload(1, body=[0.0]), "ben": upload(3, body=[4.0])}, ["body"])
    assert mean.keys() == {"body"} and mean["body"].tolist() == [3.0]
    assert mean["body"].dtype == torch.float32


def test_every_entry_and_every_tensor_has_its_own_mean() -> None:
    uploads = {
        "anna": upload(2, body=[1.0, -1.0], head=[8.0]),
        "ben": upload(1, body=[4.0, 2.0], head=[2.0]),
        "cleo": upload(1, body=[2.0, 0.0], head=[-2.0]),
    }
    mean = weighted_mean(uploads, ["head", "body"])
    assert mean["body"].tolist() == [2.0, 0.0]
    assert mean["head"].tolist() == [4.0]


def test_only_what_is_named_is_averaged() -> None:
    uploads = {"anna": upload(1, body=[1.0], head=[2.0])}
    assert weighted_mean(uploads, ["body"]).keys() == {"body"}
    assert weighted_mean(uploads, []) == {}
    with pytest.raises(KeyError, match="tail"):
        weighted_mean(uploads, ["tail"])


def test_the_uploads_are_left_as_they_are() -> None:
    one, other = upload(1, body=[1.0]), upload(1, body=[3.0])
    mean = weighted_mean({"anna": one, "ben": other}, ["body"])
    mean["body"] += 10
    assert one.floats("body").tolist() == [1.0] and other.floats("body").tolist() == [3.0]


def test_numbers_that_may_not_be_written_are_averaged() -> None:
    """Arrays that stand in a message's bytes are read only."""
    values = np.frombuffer(np.array([2.0, 4.0], "<f4").tobytes(), "<f4")
    assert not values.flags.writeable
    mean = weighted_mean({"anna": Bundle(5, tensors={"body": Dense(values)})}, ["body"])
    assert mean["body"].tolist() == [2.0, 4.0]
