"""Whole runs of any method, ended with the test."""

from collections.abc import Iterator

import pytest

from fedsub.testing.runs import RunMethod, running


@pytest.fixture
def run_method() -> Iterator[RunMethod]:
    """Run a method's rounds on a federation, in one process."""
    with running() as run:
        yield run
