"""The model that a weak device would get, by the rules of the papers' methods."""

from pathlib import Path

import pytest
import torch

from fedsub.export.formats import export
from fedsub.export.weak import weak_model
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import mlp
from fedsub_papers.models.exits import with_all_exits
from fedsub_papers.models.pools import numbers
from fedsub_papers.tests.again import again
from tests.fedsub.export import test_weak as house
from tests.fedsub.export.test_weak import server_state, trained
from tests.fedsub_core.models import modules

#: Numbers of a model of 4 inputs, hidden layers of 24, 24 and 32 units, and 3 classes.
WHOLE = 24 * 5 + 24 * 25 + 32 * 25 + 3 * 33


def test_of_single_numbers_it_gets_the_largest_and_the_others_are_0(tmp_path: Path) -> None:
    own = trained(tmp_path, "fiarse")
    weak, state = weak_model(own, 0.5, tmp_path), server_state(tmp_path, "fiarse")
    held = sum(int((t != 0).sum()) for t in weak.params.values())
    assert held == sum(t.numel() for t in weak.params.values()) // 4
    for name, tensor in weak.params.items():
        assert torch.equal(tensor[tensor != 0], state[name][tensor != 0])


@pytest.mark.parametrize("name", ["adaptivefl", "flexfl", "flado", "scalefl"])
def test_where_a_method_says_how_wide_layers_are_it_gets_these(name: str, tmp_path: Path) -> None:
    """Not the first units of the person's model, of which most may be 0."""
    own = trained(tmp_path, name, capacities="p1=1/4", hidden="24,24,32")
    weak, state = weak_model(own, 0.75, tmp_path), server_state(tmp_path, name)
    full = numbers(with_all_exits(mlp(4, 3, (24, 24, 32)))) if name == "scalefl" else None
    assert sum(t.numel() for t in weak.params.values()) <= 0.75**2 * (full or WHOLE)
    assert "linear3.weight" in weak.params or name == "scalefl"
    for key, tensor in weak.params.items():
        assert tensor.all() and torch.isin(tensor, state[key]).all(), key
    assert export(weak, "torchscript", tmp_path / "weak.pt") is not None
    whole = weak_model(own, 1.0, tmp_path)
    torch.testing.assert_close(whole.params["linear3.weight"], state["linear3.weight"])
    with pytest.raises(ConfigError, match=f"got 0.25 of {name}'s model without its run, expected"):
        weak_model(own, 0.25)


@pytest.mark.parametrize("module", ["ResidualCNN", "Recurrent"])
@pytest.mark.parametrize("name", ["adaptivefl", "flado"])
def test_of_a_module_it_gets_what_the_method_would_send(
    name: str, module: str, tmp_path: Path
) -> None:
    own = trained(tmp_path, name, capacities="p1=1/2", model=f"{modules.__file__}:{module}")
    weak, state = weak_model(own, 0.75, tmp_path), server_state(tmp_path, name)
    assert sum(t.numel() for t in weak.params.values()) < sum(state[n].numel() for n in weak.params)
    for key, tensor in weak.params.items():
        assert torch.isin(tensor, state[key]).all(), key
    assert export(weak, "torchscript", tmp_path / "weak.pt") is not None


def test_what_a_device_chooses_by_its_samples_is_not_chosen_for_it(tmp_path: Path) -> None:
    own = trained(tmp_path, "feddse", capacities="p1=1/4")
    with pytest.raises(ConfigError, match=r"got 0.25 of feddse's model, .* by its own samples"):
        weak_model(own, 0.25, tmp_path)


test_a_weak_device_gets_the_units_that_the_method_would_send = again(
    house.test_a_weak_device_gets_the_units_that_the_method_would_send,
    "name, first",
    [("fedrolex", house.ROUNDS)],
)
