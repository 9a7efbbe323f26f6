"""What all tests share, the house's and these: one thread, randomness by name, whole runs."""

from tests.conftest import (
    _own_state,
    blank_figures,
    by_pytorch,
    either,
    kernels,
    pytest_fixture_setup,
    pytest_runtest_call,
    real_data,
)
from tests.methods.conftest import run_method

__all__ = [
    "_own_state",
    "blank_figures",
    "by_pytorch",
    "either",
    "kernels",
    "pytest_fixture_setup",
    "pytest_runtest_call",
    "real_data",
    "run_method",
]
