"""The protection of a run, as its configuration asks for it."""

from __future__ import annotations

from fedsub_core.config.halves import ServerSettings
from fedsub_core.extras import require
from fedsub_core.wire.bundles import Declaration
from strategies.protections.noised import Noised
from strategies.protections.noised_means import NoisedMeans
from strategies.protections.plain import Plain
from strategies.protections.protection import Protection
from strategies.protections.secure import Secure
from strategies.protections.secure_sums import SecureSums
from strategies.rounds.connection import Connection
from strategies.rounds.noise_ledger import NoiseLedger
from strategies.rounds.own_time import OwnTime
from strategies.rounds.server_half import ServerHalf
from strategies.rounds.undoing import Undoing


def check_noise(settings: ServerSettings) -> None:
    """Raise ConfigError if a run wants noise on means, and what counts its epsilon is missing."""
    if settings.noise.dp_noise:
        # Here and not where the configuration is checked: devices need no accountant.
        require("dp-noise", "dp_accounting")


def protection_of(
    half: ServerHalf,
    connection: Connection,
    sends: Declaration,
    sums: SecureSums | None,
    ledger: NoiseLedger,
    undoing: Undoing,
    own_time: OwnTime,
) -> Protection:
    """Return the protection of a run.

    Parameters
    ----------
    sends : the tensors of an upload.
    sums : what makes secure sums; None: the run asks for none.
    ledger : of noise, which begins here where the run asks for it.

    Raises
    ------
    ConfigError
        If noise would break what is sent.
    """
    noise, means = half.settings.noise, None
    if noise.dp_noise:
        ledger.begin(connection.simulated, connection.rounds.seed)
        means = NoisedMeans(noise, ledger, sends)
    if sums is not None and sends:
        return Secure(half, connection, own_time, sums, means)
    if means is not None and sends:
        return Noised(half, connection, own_time, means)
    return Plain(half, connection, own_time, undoing)
