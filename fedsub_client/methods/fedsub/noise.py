"""Differentially private prototypes: clip, add noise, account for what was spent (option).

What is protected is a client's whole class: a clipped prototype moves by at most twice the bound,
whatever samples it is the mean of, so the guarantee does not rest on a sample count that nobody
checks. It covers prototypes alone. Rows, masks, scores and labels leave the device without
noise. Dwork and Roth, The Algorithmic Foundations of Differential Privacy, 2014, sections 3.3
(Laplace) and 3.5, appendix A (Gauss).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import torch
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.extras import require
from fedsub_core.seeds import generator

# Of noise below this share of the sensitivity (over the root of the releases) the distribution of
# the privacy loss takes gigabytes and minutes.
WEAK = 0.3
SECRET, VERSION, RELEASES = "noise.secret", "noise.version", "noise.releases"
# The norm in which each kind of noise measures how far a prototype can move.
NORMS = {"gaussian": 2, "laplace": 1}


@dataclass(frozen=True)
class PrototypeNoise:
    """How prototypes are made private.

    Parameters
    ----------
    kind : ``gaussian`` or ``laplace``.
    clip : bound of a prototype's L2 (gaussian) or L1 (laplace) norm, in units of the features.
    sigma : standard deviation of every coordinate's noise, in units of the features.
    """

    kind: str
    clip: float
    sigma: float

    def __post_init__(self) -> None:
        """Refuse settings that promise no privacy, and a missing accountant."""
        if self.kind not in NORMS:
            raise ConfigError(f"prototype noise: got {self.kind!r}, expected {' or '.join(NORMS)}")
        for name, value in (("clip", self.clip), ("sigma", self.sigma)):
            if not 0 < value < float("inf"):
                raise ConfigError(
                    f"prototype-{name}: got {value}, expected more than 0: noise without both "
                    "guarantees nothing. Set prototype-clip and prototype-sigma, or "
                    "prototype-noise = 'none'."
                )
        # Said before the first round, not after it, when the first epsilon is asked for.
        require("prototype-noise", "dp_accounting")

    @property
    def multiplier(self) -> float:
        """The noise's scale (Gauss: sigma, Laplace: b) over the prototype's sensitivity."""
        scale = self.sigma if self.kind == "gaussian" else self.sigma / sqrt(2)
        return scale / (2 * self.clip)


def privatised(
    rho: Tensor, noise: PrototypeNoise, clients: Sequence[str], seed: int, releases: Sequence[str]
) -> Tensor:
    """Return clipped prototypes with noise, ``[clients, classes, d]``.

    Parameters
    ----------
    rho : [clients, classes, d], rows of classes a client lacks included; the caller drops them.
    seed : who knows it can take the noise off again: outside of simulations it must be the
        device's own secret, not the run's seed.
    releases : per client, what tells this release from its others, such as the content hash of
        the data. The same release gets the same noise, so that resending it spends nothing; two
        releases of different prototypes must never share a name.
    """
    norms: Tensor = torch.linalg.vector_norm(rho, ord=NORMS[noise.kind], dim=2, keepdim=True)
    clipped: Tensor = rho * (noise.clip / norms.clamp(min=noise.clip))
    draws = []
    for client, release in zip(clients, releases, strict=True):
        stream = generator(seed, client, 0, f"prototype noise {release}")
        if noise.kind == "gaussian":
            draws.append(torch.randn(rho.shape[1:], generator=stream))
        else:
            # The difference of two exponentials is Laplace with b = 1 and variance 2.
            pair = torch.empty(2, *rho.shape[1:]).exponential_(generator=stream)
            draws.append((pair[0] - pair[1]) / sqrt(2))
    return clipped + noise.sigma * torch.stack(draws).to(rho)


def noise_ledger(clients: int) -> dict[str, Tensor]:
    """Return the state that noise needs: int64 [clients] each.

    ``noise.secret`` is mixed into the noise's seed. It is 0 in simulations; a device draws its
    own (:func:`own_secret`), or the server could take the noise off again. ``noise.version`` is
    the last release's name and ``noise.releases`` how many there were.
    """
    return {name: torch.zeros(clients, dtype=torch.int64) for name in (SECRET, VERSION, RELEASES)}


def own_secret() -> Tensor:
    """Return a device's secret, int64 [1], from the operating system's randomness."""
    return torch.tensor([secrets.randbits(63)])


def release(
    state: dict[str, Tensor],
    rho: Tensor,
    noise: PrototypeNoise,
    clients: Sequence[str],
    seed: int,
    names: Sequence[int],
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the state after releasing prototypes called `names`, and what to send.

    A name that was the last one is the same release again and spends nothing.
    """
    now = torch.tensor(list(names), device=state[VERSION].device)
    new = (now != state[VERSION]).to(torch.int64)
    texts = [f"{s} {n}" for s, n in zip(state[SECRET].tolist(), names, strict=True)]
    ledger = {VERSION: now, RELEASES: state[RELEASES] + new}
    return state | ledger, privatised(rho, noise, clients, seed, texts)


@lru_cache(maxsize=1024)
def spent_epsilon(noise: PrototypeNoise, releases: int, delta: float) -> float:
    """Return epsilon after a class's prototype was released `releases` times.

    (epsilon, delta)-differential privacy against the replacement of all the client's samples of
    one class, by the privacy loss distribution of the composed releases; of weak noise (epsilon
    above 20 or so) by Renyi differential privacy, a bound some 5 % above. Classes share no samples,
    so the client's most often released class counts.

    Raises ConfigError if `delta` is not between 0 and 1.
    """
    if not 0 < delta < 1:
        raise ConfigError(f"delta: got {delta}, expected 0 < delta < 1")
    if releases == 0:
        return 0.0
    # Imported here because it takes seconds, and most runs have no noise.
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    events = {
        "gaussian": dp_accounting.GaussianDpEvent,
        "laplace": dp_accounting.LaplaceDpEvent,
    }
    weak = noise.multiplier < WEAK * sqrt(releases)
    accountant = RdpAccountant() if weak else PLDAccountant()
    accountant.compose(events[noise.kind](noise.multiplier), releases)
    return float(accountant.get_epsilon(delta))
