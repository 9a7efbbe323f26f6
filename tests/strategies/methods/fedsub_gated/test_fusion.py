"""The fused track against its formula, unit by unit, with plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies.methods.fedsub.membership import cluster_weights
from strategies.methods.fedsub.robust import RowMean
from strategies.methods.fedsub_gated.fusion import Mix, annealed, everybodys, fuse_layer

from ..fedsub.equations import Array, Round, federation, rounds

MIXES = [Mix(0.0, 1.0), Mix(0.3, 0.4), Mix(0.5, 0.0)]


def run(
    round: Round, shares: Array | None, mix: Mix, mean: RowMean | None = None
) -> tuple[Array, Array]:
    rows, masks, clusters, contributes, omega = round
    weights = cluster_weights("overlapping-any", clusters, contributes, omega)
    sent, selects = torch.from_numpy(rows), torch.from_numpy(masks)
    of = None if shares is None else torch.from_numpy(shares)
    common = everybodys(weights, sent, selects, torch.from_numpy(omega).float(), mean)
    fused, replaced = fuse_layer(weights, sent, selects, of, common, mix, mean)
    assert fused.dtype == torch.float32 and not fused[~replaced].any()
    return fused.numpy(), replaced.numpy()


def reference(round: Round, shares: Array | None, mix: Mix) -> tuple[Array, Array]:
    rows, masks, clusters, contributes, omega = round
    n, units, _ = rows.shape
    fused, replaced = np.zeros(rows.shape), np.zeros((n, units), bool)
    classes = clusters.shape[1]

    def score(v: int, y: int, cluster: list[int]) -> float:
        return float(omega[v, y]) if any(omega[k, y] > 0 for k in cluster) else 1.0

    for j in range(units):
        own = {v: [y for y in range(classes) if contributes[v, y] and masks[v, y, j]]
               for v in range(n)}  # fmt: skip
        weight = {v: sum(float(omega[v, y]) for y in own[v]) for v in range(n)}
        total = sum(weight.values())
        everybody = sum(weight[v] * rows[v, j] for v in range(n)) / total if total else None
        for u in range(n):
            means = {}
            for y in range(classes) if shares is not None else [j]:
                cluster = [v for v in range(n) if contributes[v, y] and clusters[u, y] >= 0
                           and clusters[v, y] == clusters[u, y]]  # fmt: skip
                held = [v for v in cluster if masks[v, y, j] and score(v, y, cluster) > 0]
                if held:
                    scores = [score(v, y, cluster) for v in held]
                    means[y] = np.average([rows[v, j] for v in held], axis=0, weights=scores)
            if shares is None:
                say = dict.fromkeys(means, 1.0)
                alike, all_ = 1 - mix.all, mix.all if means else 1.0
            else:
                say = {y: float(shares[u, y, j]) if own[u] else 1.0 for y in means}
                alike, all_ = mix.alike, mix.all
            if not sum(say.values()):
                alike = 0.0
            if everybody is None:
                all_ = 0.0
            if alike + all_ == 0:
                continue
            new = np.zeros(rows.shape[2])
            for y, mean in means.items() if alike else ():
                new += alike * say[y] / sum(say.values()) * mean
            if everybody is not None:
                new += all_ * everybody
            rest = (1 - alike - all_) * rows[u, j]
            fused[u, j] = new + rest if own[u] else new / (alike + all_)
            replaced[u, j] = True
    return fused, replaced


def shares_of(round: Round, seed: int) -> Array:
    masks = round[1]
    drawn = np.random.default_rng(seed).random(masks.shape) * masks
    shares: Array = drawn / np.maximum(drawn.sum(1, keepdims=True), 1e-9)
    return shares.astype(np.float32)


@pytest.mark.parametrize("mix", MIXES)
@given(round=rounds, seed=st.integers(0, 99))
def test_hidden_units(mix: Mix, round: Round, seed: int) -> None:
    shares = shares_of(round, seed)
    fused, replaced = run(round, shares, mix)
    expected, expected_replaced = reference(round, shares, mix)
    assert (replaced == expected_replaced).all()
    np.testing.assert_allclose(fused, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(30))
def test_output_units(mix: Mix, seed: int) -> None:
    """Unit y is class y's alone: who holds the class sends it."""
    rows, _, clusters, contributes, omega = federation(seed, n=6, classes=4, units=4)
    masks = np.eye(4, dtype=bool)[None] & contributes[:, :, None]
    rows = np.random.default_rng(seed).normal(size=rows.shape).astype(np.float32)
    rows[~contributes] = 0
    round = rows, masks, clusters, contributes, omega
    fused, replaced = run(round, None, mix)
    expected, expected_replaced = reference(round, None, mix)
    assert (replaced == expected_replaced).all()
    np.testing.assert_allclose(fused, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(10))
def test_another_mean_is_given_the_same_rows_and_weights(mix: Mix, seed: int) -> None:
    """A robust mean that is the weighted mean gives what is given without one."""
    rows, masks, clusters, contributes, omega = federation(seed, n=6, classes=4, units=4)
    hidden = rows, masks, clusters, contributes, omega
    own: Array = np.eye(4, dtype=bool)[None] & contributes[:, :, None]
    # Of the outputs everybody sends those of classes that it holds: unit y is class y's.
    sent = rows * contributes[:, :, None]
    output = sent, own, clusters, contributes, omega

    def weighted(rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        return torch.einsum("m,muw->uw", shares.to(rows.dtype), rows)

    for round, shares in ((hidden, shares_of(hidden, seed)), (output, None)):
        plain, robust = run(round, shares, mix), run(round, shares, mix, weighted)
        assert (plain[1] == robust[1]).all()
        np.testing.assert_allclose(robust[0], plain[0], rtol=1e-4, atol=1e-4)


def test_who_is_alone_keeps_half_and_gets_the_other_half_back() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    masks, clusters = np.ones((2, 1, 1), bool), np.array([[0], [1]])
    round = rows, masks, clusters, np.ones((2, 1), bool), np.array([[1.0], [3.0]])
    fused, replaced = run(round, np.ones((2, 1, 1), np.float32), Mix(0.5, 0.0))
    assert replaced.all()
    np.testing.assert_array_equal(fused, rows)
    fused, _ = run(round, np.ones((2, 1, 1), np.float32), Mix(0.0, 1.0))
    np.testing.assert_allclose(fused, np.broadcast_to((rows[0] + 3 * rows[1]) / 4, rows.shape))


def test_everybodys_mean_gives_way() -> None:
    assert annealed(1, 100) == Mix(0.0, 1.0)
    assert annealed(41, 100) == Mix(0.25, 0.5)
    assert annealed(81, 100) == annealed(100, 100) == Mix(0.5, 0.0)
