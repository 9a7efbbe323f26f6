"""Randomness follows from names: of tests here, of arguments in the packages."""

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.runs import positions

from .random_streams import seed_streams
from .test_arrows import BELOW, ROOT, modules

#: Of PyTorch; in the process's own stream where no generator is given.
DRAWS = {
    *("bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint"),
    *("randint_like", "randn", "randn_like", "randperm"),
    *("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_"),
    *("kaiming_normal_", "kaiming_uniform_", "orthogonal_", "trunc_normal_", "uniform_"),
    *("xavier_normal_", "xavier_uniform_"),
}
#: Seeds of a stream that everybody shares.
SEEDS = {"torch.manual_seed", "torch.seed", "torch.random.manual_seed", "torch.cuda.manual_seed"}
#: Of random and numpy.random: what makes a stream of one's own, from a seed.
MAKERS = {"Random", "default_rng", "Generator", "RandomState", "SeedSequence", "PCG64"}
#: Forks that began with the same stream are parted by it, for the methods of others.
ALLOWED = {
    ("fedsub/deploy/warm_clientapp.py", "np.random.seed()"),
    # Modules of others draw from the process's stream: at a seed of the run's, put back afterwards.
    ("fedsub_core/models/drawing.py", "torch.default_generator.manual_seed(seed)"),
    # And what looks where streams are does not draw.
    ("fedsub/testing/runs.py", "np.random.get_state(legacy=False)"),
    ("fedsub/testing/runs.py", "random.getstate()"),
}


def calls(tree: ast.AST, inside: bool = True) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of a file, with the function's whole name as imported."""
    names = {
        alias.asname or alias.name: f"{module}{alias.name}".removeprefix("fedsub_core.pytorch.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in [f"{node.module}." if isinstance(node, ast.ImportFrom) else ""]
        for alias in node.names
    }
    queue = [tree]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda) and not inside:
            continue
        queue += ast.iter_child_nodes(node)
        if isinstance(node, ast.Call):
            first, *rest = ast.unparse(node.func).split(".")
            yield ".".join([names.get(first, f"({first})"), *rest]), node


def shared(name: str, call: ast.Call) -> bool:
    """Return whether a call draws from, or seeds, a stream that the whole process shares."""
    *where, last = name.split(".")
    module = ".".join(where)
    if module in ("random", "numpy.random"):
        return last not in MAKERS or unseeded(name, call)
    if name in SEEDS:
        return True
    of_torch = last in DRAWS and (where[0] == "torch" or last.endswith("_"))
    return of_torch and "generator" not in {keyword.arg for keyword in call.keywords}


def unseeded(name: str, call: ast.Call) -> bool:
    """Return whether a call makes a stream out of nothing, other in every process."""
    made = name in {f"{m}.{maker}" for m in ("random", "numpy.random") for maker in MAKERS}
    return made and not call.args and not call.keywords


@pytest.mark.parametrize("package", BELOW)
def test_packages_draw_from_streams_that_they_are_given(package: str) -> None:
    for name, _, tree in modules(package):
        found = {
            (name, ast.unparse(call)) for function, call in calls(tree) if shared(function, call)
        }
        assert not found - ALLOWED


def test_tests_draw_nothing_that_no_name_seeds() -> None:
    """Not while they are imported, and from no stream that is made out of nothing."""
    for name, _, tree in modules("tests"):
        early = [call for function, call in calls(tree, inside=False) if shared(function, call)]
        early += [call for function, call in calls(tree) if unseeded(function, call)]
        assert not early, f"{name}: {[ast.unparse(call) for call in early]}"


@pytest.mark.parametrize(
    ("line", "is_shared"),
    [
        ("import torch; torch.randn(3)", True),
        ("import torch; torch.randn(3, generator=g)", False),
        ("from fedsub_core.pytorch import torch; torch.randn(3)", True),
        ("from torch import randperm as order; order(3)", True),
        ("from torch import nn; nn.init.uniform_(weight)", True),
        ("x.normal_()", True),
        ("x.normal_(generator=g)", False),
        ("import torch; torch.manual_seed(0)", True),
        ("import torch; torch.Generator().manual_seed(0)", False),
        ("import numpy as np; np.random.shuffle(x)", True),
        ("import numpy as np; np.random.default_rng(3).shuffle(x)", False),
        ("import numpy as np; np.random.default_rng()", True),
        ("from numpy.random import rand; rand(3)", True),
        ("import random; random.choice(x)", True),
        ("import random; random.Random(3).choice(x)", False),
        ("from random import Random; Random()", True),
        ("def f(random): random.choice(x)", False),
    ],
)
def test_what_is_a_draw_from_a_shared_stream(line: str, is_shared: bool) -> None:
    found = [function for function, call in calls(ast.parse(line)) if shared(function, call)]
    assert bool(found) == is_shared, found


def draw() -> tuple[float, ...]:
    return (random.random(), np.random.rand(), torch.rand(()).item())


@pytest.fixture(scope="module")
def drawn_by_a_fixture() -> tuple[float, ...]:
    return draw()


@pytest.mark.parametrize("again", [0, 1])
def test_what_a_test_draws_follows_from_its_name(
    request: pytest.FixtureRequest, drawn_by_a_fixture: tuple[float, ...], again: int
) -> None:
    found = draw()
    assert len({*found, *drawn_by_a_fixture}) == 6
    seed_streams(request.node.nodeid)
    assert draw() == found
    seed_streams(f"{Path(__file__).relative_to(ROOT).as_posix()} drawn_by_a_fixture")
    assert draw() == drawn_by_a_fixture, "whichever test had it made"


@pytest.mark.parametrize("one", [random.random, np.random.rand, lambda: torch.rand(())])
def test_a_draw_moves_a_stream(one: object) -> None:
    before = positions()
    assert positions() == before
    one()  # type: ignore[operator]
    assert positions() != before


def test_cases_of_hypothesis_follow_from_names(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-profile") is not None:
        pytest.skip("cases of another profile were asked for")

    def cases() -> list[int]:
        found: list[int] = []

        @given(st.integers())
        def note(number: int) -> None:
            found.append(number)

        note()
        return found

    assert cases() == cases()
