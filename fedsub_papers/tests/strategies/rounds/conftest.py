"""Runs whose messages a test may tamper with, as the house's tests of rounds have them."""

from tests.strategies.conftest import run_method

__all__ = ["run_method"]
