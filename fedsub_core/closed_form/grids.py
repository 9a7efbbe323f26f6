"""What candidate heads differ in, and how many there are: plain numbers, for cards to count."""

from __future__ import annotations

#: Ridge penalties that candidates are solved with: for features of deviation 1.
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
#: Those that candidates on others' sums are solved with, each an eigendecomposition: what lies
#: between two of them is a mixture.
WITH_OTHERS = PENALTIES[::2]
#: How much a person's own samples weigh against others'.
OWN_WEIGHTS = (1.0, 5.0, 20.0, 100.0)
#: Into how many stretches each class's samples are cut; who has no more leaves one out at a time.
STRETCHES = 3
#: As how many of a person's samples everybody's equations and the default count.
PRIOR = 300.0
#: By which scores are multiplied before softmax, of which one is chosen.
TEMPERATURES = tuple(2.0 ** (k / 2) for k in range(-4, 10))
#: Candidates on own sums alone, and on each set of sums that others are in.
ALONE, ON_EACH = 2 * len(PENALTIES), len(WITH_OTHERS) * len(OWN_WEIGHTS)


def packed(features: int) -> int:
    """Return the number of entries in the lower triangle of a constant and `features`."""
    return (features + 1) * (features + 2) // 2
