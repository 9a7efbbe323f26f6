"""What commands say of the papers' methods."""

from pathlib import Path

import pytest

from tests.fedsub.commands.calls import Call, assert_refused
from tests.fedsub.commands.test_run_refusals import QUICK


def test_a_later_method_that_lacks_a_package(
    fedsub: Call, town_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before the first one trains, and leaves no folder."""
    monkeypatch.setattr("fedsub_core.extras.find_spec", lambda name: None)
    options = ("--method", "heterofl", "--beside", "subflot", "--capacities", "1,1/4")
    said = fedsub("run", "--data", town_folder, *options, *QUICK)
    assert_refused(said, "subflot.plan = exact needs ot", "or set subflot.plan=sinkhorn")
    assert not Path("runs").exists()


@pytest.mark.parametrize("method", ["scalefl", "depthfl"])
def test_a_method_with_a_loss_of_its_own_refuses_another(
    fedsub: Call, town_folder: Path, method: str
) -> None:
    options = ("--method", method, "--beside", "", "--loss", "focal", "--set", "hidden=16,16")
    said = fedsub("run", "--data", town_folder, *options, *QUICK)
    assert_refused(said, "loss", method, "a loss of its own")
