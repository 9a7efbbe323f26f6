"""Whole runs of any method, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from fedsub.engines.cohort_grid import CohortGrid

from .method_runs import Run
from .method_runs import run_method as run


@pytest.fixture
def run_method() -> Iterator[Callable[..., Run]]:
    """Run a method's rounds on a federation, in one process."""
    grids: list[CohortGrid] = []
    yield partial(run, grids)
    for grid in grids:
        grid.close()
