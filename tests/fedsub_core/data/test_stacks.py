"""Taking each client's samples in an order of its own, and what a model sees of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsub_core.data.stacks import inputs, stack, taken
from fedsub_core.data.standardise import apply, moments, of_bytes, scaling


@pytest.mark.parametrize("features", [(), (4,), (3, 5)])
def test_each_client_gets_its_own_samples_in_its_order(features: tuple[int, ...]) -> None:
    values = torch.arange(2 * 7 * 15).view(2, 7, 15)[..., : torch.Size(features).numel()]
    values = values.reshape(2, 7, *features)
    order = torch.tensor([[6, 0, 0], [1, 2, 3]])
    found = taken(values, order)
    assert found.shape == (2, 3, *features)
    for client in range(2):
        assert torch.equal(found[client], values[client][order[client]])


@pytest.mark.parametrize("samples", [0, 3])
def test_of_no_samples_none_are_taken(samples: int) -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    assert taken(torch.ones(2, samples, 4), none).shape == (2, 0, 4)


def test_padding_is_of_no_class() -> None:
    """It stands as label 0, which the second person has no sample of."""
    ys = [np.array([0, 1, 1]), np.array([2])]
    data = stack(["a", "b"], [np.ones((len(y), 4), np.float32) for y in ys], ys)
    assert data.holds(3).tolist() == [[True, True, False], [False, False, True]]
    assert data.of_class(3).sum(1).tolist() == [[1, 2, 0], [0, 0, 1]]
    assert data.valid.tolist() == [[True] * 3, [True, False, False]]


def test_what_is_made_of_samples_is_made_once_and_anew_of_others() -> None:
    ys = [np.array([0, 1, 1]), np.array([2])]
    data = stack(["a", "b"], [np.ones((len(y), 4), np.float32) for y in ys], ys)
    assert data.class_counts(3).tolist() == [[1, 2, 0], [0, 0, 1]]
    assert data.class_counts(3) is data.class_counts(3)
    assert data.class_counts(4).shape == (2, 4)
    grown = replace(data, counts=(3, 3))
    assert grown.class_counts(3).tolist() == [[1, 2, 0], [2, 0, 1]]
    assert data.select([1]).class_counts(3).tolist() == [[0, 0, 1]]


def test_bytes_stay_bytes_until_a_model_sees_them() -> None:
    stream = np.random.default_rng(1)
    xs = [stream.integers(0, 256, (n, 2, 3, 4), np.uint8) for n in (5, 3)]
    scalings = [scaling(moments(xs[0])), of_bytes(2)]
    data = stack(["a", "b"], xs, [np.zeros(5, np.int64), np.zeros(3, np.int64)], scalings=scalings)
    assert data.x.dtype == torch.uint8 and data.x.shape == (2, 5, 2, 3, 4)
    swapped = data.select([1, 0])
    for one, order in ((data, (0, 1)), (swapped, (1, 0))):
        found = inputs(one.x, one.scale)
        assert found.dtype == torch.float32
        for row, i in enumerate(order):
            expected = apply(scalings[i], xs[i])
            assert expected.dtype == np.float32
            np.testing.assert_array_equal(found[row, : len(xs[i])], expected)
    assert inputs(data.x, data.scale)[1, :3].max() <= 1
    few = data.part(torch.tensor([[False, True, False, True, False], [True] + [False] * 4]))
    np.testing.assert_array_equal(few.x[0], xs[0][[1, 3]])
    assert few.scale is data.scale and few.x.dtype == torch.uint8


def test_token_ids_are_whole_numbers_and_floats_are_themselves() -> None:
    ids = stack(["a"], [np.array([[1, 2]], np.int32)], [np.zeros(1, np.int64)])
    assert (ids.x.dtype, inputs(ids.x).dtype) == (torch.int32, torch.int64)
    assert ids.scale is None and inputs(ids.x).tolist() == [[[1, 2]]]
    x = torch.ones(1, 2, 3)
    assert inputs(x) is x
