"""Sums as they leave the server: named by their content, with noise where a run wants it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.accounting import spent_epsilon
from fedsub_core.closed_form.noise import draws, noisy
from fedsub_core.closed_form.sending import Portable
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.method_parts.ridge_tensors import CROSS, EVERYBODY, GRAM
from fedsub_core.seeds import derive_seed
from fedsub_core.wire.bundles import Floats, Part
from strategies.methods.fedsub_ridge.everybody import by_features
from strategies.rounds.context import DrawnNoise
from strategies.rounds.server_half import State

VERSIONS = "versions"
#: What noise follows from, beside the sums' name: nobody's who gets sums; and how often any were
#: released with noise.
SECRET, RELEASES = "noise.secret", "noise.releases"


def ledger(hyper: Any, seed: int | None) -> State:
    """Return a secret of the server's, in a simulation the run's `seed`, and no release yet."""
    spent_epsilon(hyper.noise, 1, hyper.noise_delta)  # refused before the first round
    secret = secrets.randbits(62) if seed is None else seed
    return {SECRET: torch.tensor([secret]), RELEASES: torch.zeros(1, dtype=torch.int64)}


def released(state: State, noise: float) -> dict[int, Statistics]:
    """Return everybody's sums as they may leave the server: the same with the same noise.

    A sample is in those of one number of features alone, so all of them are one release.
    """
    sums = by_features(state)
    if not noise:
        return sums
    seeds = _seeds(state, sums)
    return {n: noisy(one, noise, np.random.default_rng(seeds[n])) for n, one in sums.items()}


def drawn(state: State, noise: float) -> list[DrawnNoise]:
    """Return the noise on what :func:`released` returns."""
    sums = by_features(state)
    seeds = _seeds(state, sums)
    return [DrawnNoise(seeds[n], draws(one, noise)) for n, one in sums.items()]


def _seeds(state: State, sums: Mapping[int, Statistics]) -> dict[int, int]:
    found = {}
    for features, one in sums.items():
        whose = EVERYBODY if features == max(sums) else f"{EVERYBODY} {features}"
        content = name_of(one.gram, one.cross)
        found[features] = derive_seed(int(state[SECRET]), whose, content, "noise on sums")
    return found


def released_anew(before: State, after: State) -> State:
    """Return the part of the state that counts releases: other sums leave with other noise."""
    new = int(after[VERSIONS][0] not in (before[VERSIONS][0], 0))
    return {RELEASES: after[RELEASES] + new}


def parts(name: str, sums: Statistics) -> dict[str, Part]:
    """Return sums as they travel, under a name."""
    sent = Portable.of(sums)
    exponent = np.array([sent.exponent], np.float32)
    return {
        f"{name}.{GRAM}": Floats(sent.gram),
        f"{name}.{CROSS}": Floats(sent.cross),
        f"{name}.exponent": Floats(exponent),
    }


def name_of(*content: NDArray[np.generic]) -> int:
    """Return a number that names content, never 0."""
    digest = hashlib.blake2b(digest_size=8)
    for one in content:
        digest.update(np.ascontiguousarray(one).tobytes())
    return (int.from_bytes(digest.digest(), "little") >> 1) or 1
