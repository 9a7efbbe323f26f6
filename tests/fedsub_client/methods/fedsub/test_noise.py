"""Noise has the stated size and seed; what it spends agrees with closed forms."""

from math import exp, sqrt
from statistics import NormalDist

import pytest
import torch

from fedsub_client.methods.fedsub import noise as noise_module
from fedsub_client.methods.fedsub.noise import (
    RELEASES,
    SECRET,
    VERSION,
    PrototypeNoise,
    noise_ledger,
    own_secret,
    privatised,
    release,
    spent_epsilon,
)
from fedsub_core.errors import ConfigError


@pytest.mark.parametrize(("kind", "order"), [("gaussian", 2), ("laplace", 1)])
def test_prototypes_are_clipped_to_the_bound(kind: str, order: int) -> None:
    rho = torch.tensor([[[3.0, 4.0], [0.03, -0.04]]])
    almost_silent = PrototypeNoise(kind, 1.0, 1e-9)
    got = privatised(rho, almost_silent, ["a"], 0, ["x"])
    assert torch.linalg.vector_norm(got[0, 0], ord=order).item() == pytest.approx(1, abs=1e-5)
    assert (got[0, 0, 1] / got[0, 0, 0]).item() == pytest.approx(4 / 3, abs=1e-5)
    torch.testing.assert_close(got[0, 1], rho[0, 1])


@pytest.mark.parametrize(("kind", "excess"), [("gaussian", 0.0), ("laplace", 3.0)])
def test_noise_has_the_stated_deviation_and_shape(kind: str, excess: float) -> None:
    noise = PrototypeNoise(kind, 1.0, 0.7)
    drawn = privatised(torch.zeros(1, 4, 50_000), noise, ["a"], 0, ["x"]).double()
    assert drawn.mean().item() == pytest.approx(0, abs=0.01)
    assert drawn.std().item() == pytest.approx(0.7, rel=0.01)
    assert ((drawn / 0.7) ** 4).mean().item() - 3 == pytest.approx(excess, abs=0.2)


def test_the_same_release_has_the_same_noise_and_no_other_has_it() -> None:
    rho, noise = torch.zeros(2, 3, 4), PrototypeNoise("gaussian", 1.0, 1.0)
    first = privatised(rho, noise, ["a", "b"], 0, ["x", "x"])
    assert torch.equal(privatised(rho[:1], noise, ["b"], 0, ["x"])[0], first[1])
    others = [
        first[1],
        privatised(rho, noise, ["a", "b"], 0, ["y", "x"])[0],
        privatised(rho, noise, ["a", "b"], 1, ["x", "x"])[0],
    ]
    assert all((first[0] - other).abs().min() > 0 for other in others)


@pytest.mark.parametrize("releases", [1, 4])
def test_gaussian_spending_agrees_with_the_closed_form(releases: int) -> None:
    # k releases of sensitivity 2 * clip are one of sensitivity sqrt(k) * 2 * clip; its delta:
    # Balle and Wang, Improving the Gaussian Mechanism for Differential Privacy, 2018, theorem 5.
    noise = PrototypeNoise("gaussian", 0.5, 2.0)
    epsilon = spent_epsilon(noise, releases, 1e-5)
    ratio, phi = sqrt(releases) * 2 * 0.5 / 2.0, NormalDist().cdf
    below, above = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
    assert phi(below) - exp(epsilon) * phi(above) == pytest.approx(1e-5, rel=0.01)


def test_laplace_spending_is_the_ratio_of_sensitivity_to_scale() -> None:
    noise = PrototypeNoise("laplace", 0.5, sqrt(2) * 2.0)
    assert spent_epsilon(noise, 1, 1e-9) == pytest.approx(2 * 0.5 / 2.0, abs=1e-3)
    assert spent_epsilon(noise, 3, 1e-9) == pytest.approx(3 * 2 * 0.5 / 2.0, abs=1e-3)
    assert spent_epsilon(noise, 0, 1e-5) == 0


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_weak_noise_has_a_bound_a_little_above(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the border both ways are there; far below it, memory for the exact one is not."""
    scale = 1.0 if kind == "gaussian" else sqrt(2)
    border = PrototypeNoise(kind, 0.5, 0.31 * scale)
    spent_epsilon.cache_clear()
    exact = spent_epsilon(border, 1, 1e-5)
    monkeypatch.setattr(noise_module, "WEAK", 1.0)
    spent_epsilon.cache_clear()
    assert exact <= spent_epsilon(border, 1, 1e-5) < 1.15 * exact
    assert spent_epsilon(PrototypeNoise(kind, 4.0, 0.01), 100, 1e-5) > 1e4
    spent_epsilon.cache_clear()


def test_settings_without_a_guarantee_are_refused() -> None:
    with pytest.raises(ConfigError, match="uniform"):
        PrototypeNoise("uniform", 1.0, 1.0)
    with pytest.raises(ConfigError, match="prototype-clip: got 0"):
        PrototypeNoise("gaussian", 0.0, 1.0)
    with pytest.raises(ConfigError, match="prototype-sigma: got -1"):
        PrototypeNoise("laplace", 1.0, -1.0)
    with pytest.raises(ConfigError, match="delta: got 1"):
        spent_epsilon(PrototypeNoise("gaussian", 1.0, 1.0), 1, 1.0)


def test_a_missing_accountant_is_said_before_the_first_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedsub_core.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"fedsub\[privacy\]"):
        PrototypeNoise("gaussian", 1.0, 1.0)


def test_a_release_stays_on_the_device_of_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU every tensor of the ledger is there; "meta" refuses to be mixed as a GPU does."""
    read = torch.Tensor.tolist

    def tolist(tensor: torch.Tensor) -> list[int]:
        return [0] * len(tensor) if tensor.is_meta else read(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", tolist)  # meta tensors hold no numbers
    state = {name: tensor.to("meta") for name, tensor in noise_ledger(2).items()}
    rho, noise = torch.zeros(2, 3, 4, device="meta"), PrototypeNoise("gaussian", 1.0, 1.0)
    after, noisy = release(state, rho, noise, ["a", "b"], 0, [7, 8])
    assert noisy.is_meta and noisy.shape == rho.shape
    assert after.keys() == state.keys()
    for name, tensor in after.items():
        assert tensor.is_meta and tensor.shape == (2,) and tensor.dtype == torch.int64, name


def test_the_ledger_counts_what_is_new() -> None:
    noise, rho = PrototypeNoise("gaussian", 1.0, 1.0), torch.zeros(2, 3, 4)
    state, first = release(noise_ledger(2), rho, noise, ["a", "b"], 0, [7, 7])
    state, second = release(state, rho, noise, ["a", "b"], 0, [7, 9])
    assert (state[VERSION].tolist(), state[RELEASES].tolist()) == ([7, 9], [1, 2])
    assert torch.equal(first[0], second[0]) and not torch.equal(first[1], second[1])
    secret = state | {SECRET: torch.tensor([5, 0])}
    _, other = release(secret, rho, noise, ["a", "b"], 0, [7, 9])
    assert not torch.equal(other[0], second[0]) and torch.equal(other[1], second[1])


def test_a_devices_secret_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(tensor.any() for tensor in noise_ledger(3).values())
    drawn = [own_secret() for _ in range(3)]
    assert all(one.shape == (1,) and one.dtype == torch.int64 and one > 0 for one in drawn)
    assert len({one.item() for one in drawn}) == 3
    monkeypatch.setattr("secrets.randbits", lambda bits: 2**bits - 1)
    assert own_secret().item() == 2**63 - 1, "all of an int64 that is not its sign"
