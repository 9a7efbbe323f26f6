"""What all standardise by: made of what each person said, or of the sum alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fedsub_core.data.samples import Tokens
from fedsub_core.data.standardise import POOLS, Moments, Scaling, scaling
from fedsub_core.encoders.standardised import feature_scaling
from fedsub_core.models.architecture import Shape
from fedsub_core.secure.messages import FEATURES, SAMPLES
from fedsub_core.wire.handshake import Introduction

#: Returns the moments of everybody's samples or features: which, and of how many numbers.
Everybodys = Callable[[str, int], Moments]


def of_each(said: Sequence[Introduction], standardise: str) -> Everybodys:
    """Return what makes everybody's moments of what each said, by the run's `standardise`."""

    def everybodys(part: str, numbers: int) -> Moments:
        each = [one.features if part == FEATURES else one.moments for one in said]
        return POOLS[standardise]([own for own in each if own is not None])

    return everybodys


def merged(one: Scaling | None, other: Scaling | None) -> Scaling | None:
    """Return what either knows of what all standardise by, of `one` where both do."""
    if one is None or other is None:
        return one or other
    return one if one.features is not None else replace(one, features=other.features)


def standardisation(
    shape: Shape, features: int, everybodys: Everybodys, known: Scaling | None = None
) -> Scaling | None:
    """Return what all standardise by; None of token ids.

    Parameters
    ----------
    shape : of a sample.
    features : numbers of an encoder's output that are standardised, too; 0: none are.
    everybodys : see there; it is asked for nothing that is known.
    known : what was agreed on before for other methods of the same run.
    """
    if isinstance(shape, Tokens):
        return None
    own = scaling(everybodys(SAMPLES, shape[0])) if known is None else known
    made = known.features if known else None
    if features and (made is None or len(made.mean) != features):
        made = feature_scaling(everybodys(FEATURES, features))
    return Scaling(own.mean, own.std, made if features else None)
