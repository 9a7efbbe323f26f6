"""Means of people's changes with noise: who is sent them learns little of any one person.

DP-FedAvg (McMahan et al., Learning Differentially Private Recurrent Language Models, ICLR 2018,
algorithm 1): each person's change is shortened to a length, all count alike, and the sum gets
Gaussian noise. Who takes part is no secret, so nothing is gained by drawing few: the rounds of
whoever was in most of them are counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedsub_core.accounting import spent_epsilon
from fedsub_core.config.settings import NoiseSettings
from fedsub_core.errors import ConfigError
from fedsub_core.metrics import MetricRow
from fedsub_core.secure.quantise import BESIDE, HALF, Total, no_longer
from fedsub_core.secure.uploads import change_of, length, mean_upload
from fedsub_core.wire.bundles import Bundle, Declaration
from strategies.rounds.context import DrawnNoise, Opened, PromisedNoise
from strategies.rounds.noise_ledger import FORGOTTEN, NoiseLedger

#: How names of running statistics end.
RUNNING = ("running_mean", "running_var")


@dataclass(frozen=True)
class NoisedMeans:
    """Makes means with noise.

    Parameters
    ----------
    settings : how much noise, on changes of which length.
    ledger : is written on.
    sends : the tensors whose mean it is.

    Raises ConfigError if these are running statistics, too: noise makes variances negative.
    """

    settings: NoiseSettings
    ledger: NoiseLedger
    sends: Declaration

    def __post_init__(self) -> None:
        """Refuse what noise would break."""
        if found := [name for name in self.sends if name.endswith(RUNNING)]:
            got = f"{len(found)} running statistics of the model's norms, such as {found[0]}"
            expected = "none in what is sent: norm = local or static, or another model"
            raise ConfigError(f"dp-noise: got {got}, expected {expected}")

    def of_uploads(
        self,
        uploads: Mapping[str, Bundle],
        received: Mapping[str, Bundle],
        round: int,
    ) -> tuple[Bundle, list[MetricRow]]:
        """Return the upload of one person who moved as the mean of all, with noise, did.

        Parameters
        ----------
        uploads : of one person at least.
        received : what each of them was sent: the same to all.
        """
        total: NDArray[np.float64] = np.zeros(length(self.sends) - BESIDE)
        for client, upload in uploads.items():
            change = change_of(upload, received[client], self.sends).astype(np.float64)
            total += no_longer(change, self.settings.longest)
        found, rows = self._noised(total, list(uploads), round)
        return mean_upload(found, received[min(uploads)], self.sends), rows

    def of_sum(self, opened: Opened, round: int) -> tuple[Opened, list[MetricRow]]:
        """Return a sum that was opened, in which all weigh alike, with noise on it.

        Whoever is in it counts, also without weight: how many have none would tell of them.
        """
        if opened.total is None:
            return opened, []
        # A sum is known but for multiples of this. A wrong vector can move it over its end, and it
        # begins anew. With its noise it is brought back: else the jump would tell the sum.
        wraps = 2 * HALF * opened.levels.range / opened.levels.each
        found, rows = self._noised(opened.total.sum, list(opened.clients), round, wraps)
        return replace(opened, total=replace(found, shortened=opened.total.shortened)), rows

    def promised(self) -> PromisedNoise:
        """Return the noise that a run promises."""
        assert self.ledger.secret is not None
        options = {"dp-noise": self.settings.dp_noise, "dp-clip": self.settings.dp_clip}
        return PromisedNoise(options, self.ledger.secret)

    def drawn(self, total: NDArray[np.float64], round: int) -> DrawnNoise:
        """Return the noise on a sum: the same on the same, so that nothing is told twice."""
        told = f"noise on means\x1f{self.ledger.secret}\x1f{round}\x1f".encode() + total.tobytes()
        seed = int.from_bytes(hashlib.sha256(told).digest(), "little")
        return DrawnNoise(seed, ((total.size, self.settings.dp_noise * self.settings.dp_clip),))

    def _noised(
        self,
        total: NDArray[np.float64],
        clients: list[str],
        round: int,
        wraps: float = inf,
    ) -> tuple[Total, list[MetricRow]]:
        """Return a sum with noise on it (:meth:`drawn`)."""
        own, ledger = self.settings, self.ledger
        drawn = self.drawn(total, round)
        ((_, deviation),) = drawn.draws
        noised = total + np.random.default_rng(drawn.seed).normal(0.0, deviation, total.shape)
        if wraps < inf:
            noised = (noised + wraps / 2) % wraps - wraps / 2
        people = len(clients)
        for client in clients:
            # Of a name that is new it may be somebody who was forgotten.
            before = ledger.rounds.get(client, ledger.rounds.get(FORGOTTEN, 0))
            ledger.rounds[client] = before + 1
        spent = spent_epsilon(own.dp_noise, max(ledger.rounds.values()), own.dp_delta)
        rows = [MetricRow(round, "", None, "epsilon", spent)]
        return Total((noised / people).astype(np.float32), noised, people, 0), rows
