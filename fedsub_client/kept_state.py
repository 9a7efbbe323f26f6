"""Going on with what a device kept of fewer classes, or of the run that another began with."""

from __future__ import annotations

from collections.abc import Mapping

from fedsub_client.cohort import Cohort
from fedsub_client.learner import State
from fedsub_core.pytorch import Tensor
from fedsub_core.widening import widened


def state_from_kept(cohort: Cohort, kept: Mapping[str, Tensor]) -> State:
    """Return the :meth:`Cohort.client_state` of a cohort of one that goes on with a kept one.

    What was not kept, or fits no more, is as a run begins with it; so are all heads that are
    solved, of other classes: they are solved anew.
    """
    begun = cohort.client_state(0)
    if not cohort.trains and not cohort.fits(kept):
        return begun
    return widened({name: kept[name] for name in cohort.state if name in kept}, begun)
