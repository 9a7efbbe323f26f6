"""The papers' models with some of their units."""

import pytest

from fedsub_core.models.units import first_units
from fedsub_papers.tests.again import again
from tests.fedsub_core.models import test_narrow as house
from tests.fedsub_core.models.test_narrow import model_of, multiplications

SHAPES = {
    "cnn2d": (1, 8, 8),
    "digit5-cnn": (3, 12, 12),
    "vgg11": (3, 32, 32),
    "resnet18": (3, 16, 16),
    "mobilenet-v2": (3, 16, 16),
}


@pytest.fixture(autouse=True)
def shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the house's tests know of which samples these are."""
    for name, shape in SHAPES.items():
        monkeypatch.setitem(house.PUBLISHED, name, shape)


test_it_computes_what_the_whole_does_with_the_others_zeroed = again(
    house.test_it_computes_what_the_whole_does_with_the_others_zeroed, "name", SHAPES
)
test_its_units_are_those_of_the_whole_that_are_left = again(
    house.test_its_units_are_those_of_the_whole_that_are_left, "name", SHAPES
)
test_it_holds_nothing_of_the_whole_model = again(
    house.test_it_holds_nothing_of_the_whole_model, "name", ["digit5-cnn"]
)


@pytest.mark.parametrize(("name", "most"), [("resnet18", 0.07), ("digit5-cnn", 0.08)])
def test_a_quarter_of_the_units_really_computes_less(name: str, most: float) -> None:
    model = model_of(name)
    small, _ = model.narrow(first_units(model, 0.25))
    assert 1 / 16 < multiplications(small) / multiplications(model) < most
    assert small.full_bytes / model.full_bytes < 0.07
