"""What stands between uploads and their mean, so that a few malicious ones do not decide it."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.options import suggestion

#: What may stand between uploads and their mean.
ROBUST_FILTERS = ("none", "clip", "multi-krum", "trimmed-mean", "median")


@dataclass(frozen=True)
class RobustSettings:
    """What keeps a few malicious uploads from deciding a mean.

    Parameters
    ----------
    clip, multi_krum : whether uploads are clipped, whether those far from all others are left out.
    mean : ``mean``, ``trimmed-mean`` or ``median`` of what is left.
    share : of a round's clients that may be malicious.
    most_examples : samples of one client that count at most in a mean, over the round's median;
        0: any.
    """

    clip: bool = True
    multi_krum: bool = False
    mean: str = "mean"
    share: float = 0.2
    most_examples: float = 3.0

    @property
    def filters(self) -> bool:
        """Whether what one upload counts for follows from others."""
        return self.clip or self.multi_krum or self.mean != "mean"

    @classmethod
    def parse(cls, text: str, share: float, most_examples: float = 3.0) -> RobustSettings:
        """Return the settings of a list of filters, such as ``clip,trimmed-mean``.

        Raises ConfigError for an unknown filter, for ``none`` with others, or for two means.
        """
        parts = [part.strip() for part in text.split(",") if part.strip()]
        for part in parts:
            if part not in ROBUST_FILTERS:
                hint = suggestion(part, ROBUST_FILTERS)
                known = ", ".join(ROBUST_FILTERS)
                raise ConfigError(f"robust: unknown {part!r}.{hint} Known: {known}")
        means = [part for part in parts if part in ("trimmed-mean", "median")]
        if len(means) > 1 or ("none" in parts and len(parts) > 1):
            raise ConfigError(f"robust: got {text!r}, expected none alone, or one mean at most")
        mean = means[0] if means else "mean"
        return cls("clip" in parts, "multi-krum" in parts, mean, share, most_examples)
