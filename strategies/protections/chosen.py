"""The protection of a run, as its configuration asks for it."""

from __future__ import annotations

from dataclasses import replace

from fedsub_core.config.halves import ServerSettings
from fedsub_core.extras import require
from strategies.protections.noised import Noised
from strategies.protections.noised_means import NoisedMeans
from strategies.protections.plain import Plain
from strategies.protections.protection import ProtectedRun, Protection
from strategies.protections.secure import Secure
from strategies.rounds.noise_ledger import NoiseLedger

#: All protections. A run has the first that it asks for.
PROTECTIONS: tuple[type[Protection], ...] = (
    Secure,
    Noised,
    Plain,
)


def check_noise(settings: ServerSettings) -> None:
    """Raise ConfigError if a run wants noise on means, and what counts its epsilon is missing."""
    if settings.noise.dp_noise:
        # Here and not where the configuration is checked: devices need no accountant.
        require("dp-noise", "dp_accounting")


def protection_of(run: ProtectedRun, ledger: NoiseLedger) -> Protection:
    """Return the protection of a run.

    Parameters
    ----------
    ledger : of noise, which begins here where the run asks for it.

    Raises ConfigError if noise would break what is sent, or a protection does not go with the run.
    """
    if (noise := run.half.settings.noise).dp_noise:
        ledger.begin(run.connection.simulated, run.connection.rounds.seed)
        run = replace(run, means=NoisedMeans(noise, ledger, run.sends))
    return next(made for kind in PROTECTIONS if (made := kind.wanted(run)) is not None)
