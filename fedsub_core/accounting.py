"""What Gaussian noise costs: epsilon of so many releases, each with noise of its own.

Whatever is hidden, a sample or a person, its share of a release is bounded, and the noise's
deviation is a multiple of that bound (Dwork and Roth 2014, appendix A). Releases compose by Renyi
differential privacy (Mironov, CSF 2017).
"""

from __future__ import annotations

from functools import lru_cache

from fedsub_core.errors import ConfigError
from fedsub_core.extras import require


@lru_cache(maxsize=1024)
def spent_epsilon(multiplier: float, releases: int, delta: float) -> float:
    """Return epsilon, at `delta`, of who had a part in so many releases.

    Parameters
    ----------
    multiplier : the noise's deviation over the greatest L2 norm of one's part.

    Raises ConfigError if `delta` is not between 0 and 1, or the accountant is not installed.
    """
    if not 0 < delta < 1:
        raise ConfigError(f"delta: got {delta}, expected 0 < delta < 1")
    if releases == 0:
        return 0.0
    require("noise", "dp_accounting")
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), releases)
    return float(accountant.get_epsilon(delta))
