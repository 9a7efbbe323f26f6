"""The papers' package draws from streams that it is given."""

import ast

import pytest

from tests.test_arrows import modules
from tests.test_randomness import calls, shared, unseeded

ROOMS = ("methods", "models", "client", "strategies", "preparing", "partitions")
#: A module's own start: at a seed of the run's, put back afterwards.
ALLOWED = {
    (
        "fedsub_papers/models/texts.py",
        "self.vectors.weight.uniform_(-1 / HIDDEN, 1 / HIDDEN)",
    ),
}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_draw_from_streams_that_they_are_given(room: str) -> None:
    for name, _, tree in modules(f"fedsub_papers/{room}"):
        found = {
            (name, ast.unparse(call)) for function, call in calls(tree) if shared(function, call)
        }
        assert not found - ALLOWED


def test_tests_draw_nothing_that_no_name_seeds() -> None:
    for name, _, tree in modules("fedsub_papers/tests"):
        early = [call for function, call in calls(tree, inside=False) if shared(function, call)]
        early += [call for function, call in calls(tree) if unseeded(function, call)]
        assert not early, f"{name}: {[ast.unparse(call) for call in early]}"
