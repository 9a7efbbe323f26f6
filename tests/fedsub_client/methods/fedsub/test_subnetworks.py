"""Masks select positive relevance of held classes; integration touches named rows only."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsub_client.methods.fedsub.subnetworks import (
    integrate,
    union_rows,
    unit_masks,
)
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.models.layers import Conv, Flatten, Linear, ReLU
from fedsub_core.models.model import unit_rows
from fedsub_core.wire.bundles import Bundle, Floats

CLASSES = 3
MLP = mlp(4, CLASSES, (7, 5))
CNN = Chain(
    (Conv("conv1", 6, 2, (3,), (1,), (0,)), ReLU(), Flatten(), Linear("linear1", CLASSES, 48)),
    (2, 10),
)


def random_relevance(model: Chain, clients: int, seed: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return {
        layer.name: torch.from_numpy(rng.integers(-1, 2, (clients, CLASSES, layer.units)))
        for layer in model.affine
    }


cases = st.tuples(
    st.sampled_from([MLP, CNN]), st.integers(1, 4), st.integers(0, 10**6), st.integers(0, 3)
)


@given(cases)
def test_masks_and_uploads(case: tuple[Chain, int, int, int]) -> None:
    model, clients, seed, depth = case
    relevance = random_relevance(model, clients, seed)
    held = torch.from_numpy(np.random.default_rng(seed).random((clients, CLASSES)) < 0.6)
    masks = unit_masks(relevance, held, depth)
    assert list(masks) == [layer.name for layer in model.affine][: depth or None]
    for name, mask in masks.items():
        assert torch.equal(mask, (relevance[name] > 0) & held.unsqueeze(2))
        assert not mask[~held].any()

    params = model.init(clients, seed)
    uploads = union_rows(model, params, masks)
    for u, upload in enumerate(uploads):
        assert list(upload) == list(masks)
        for layer in model.affine:
            if layer.name in upload:
                got = upload[layer.name]
                sent = masks[layer.name][u].any(0).numpy()
                assert np.array_equal(got.at.held(sent.shape), sent)
                own = unit_rows(params, layer.rows[0])[u].numpy()
                assert np.array_equal(got.values, own[sent])


def test_unit_rows_put_the_bias_last() -> None:
    params = CNN.init(2, 0)
    rows = unit_rows(params, CNN.affine[0].rows[0])
    assert rows.shape == (2, 6, 7)
    assert torch.equal(rows[1, 4, :-1], params["conv1.weight"][1, 4].flatten())
    assert rows[1, 4, -1] == params["conv1.bias"][1, 4]


@given(cases)
def test_integration_replaces_the_named_rows_and_nothing_else(
    case: tuple[Chain, int, int, int],
) -> None:
    model, clients, seed, depth = case
    params, other = model.init(clients, 1), model.init(clients, 2)
    before = {name: tensor.clone() for name, tensor in params.items()}
    held = torch.ones(clients, CLASSES, dtype=torch.bool)
    sent = union_rows(model, other, unit_masks(random_relevance(model, clients, seed), held, depth))
    downloads = [Bundle(tensors=rows) for rows in sent]
    downloads[0] = Bundle()
    after = integrate(model, params, downloads)
    assert list(after) == list(params)
    for layer in model.affine:
        mine, theirs, now = (unit_rows(p, layer.rows[0]) for p in (before, other, after))
        for u, download in enumerate(downloads):
            units = torch.zeros(layer.units, dtype=torch.bool)
            if layer.name in download.tensors:
                units = torch.from_numpy(download.part(layer.name).at.held((layer.units,)))
            assert torch.equal(now[u][units], theirs[u][units])
            assert torch.equal(now[u][~units], mine[u][~units])
    assert all(torch.equal(params[name], before[name]) for name in params)


def test_an_empty_download_changes_nothing() -> None:
    params = MLP.init(2, 0)
    empty = Floats.rows(np.zeros(5, np.bool_), np.zeros((0, 8), np.float32))
    after = integrate(MLP, params, [Bundle(), Bundle(tensors={"linear2": empty})])
    assert all(torch.equal(after[name], params[name]) for name in params)
