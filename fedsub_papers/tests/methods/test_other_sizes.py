"""What the papers' tables ask of weak devices: other sizes, disturbed descriptors, proxies."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedsub.testing.runs import Run, RunMethod
from fedsub_core.wire.bundles import Floats
from fedsub_papers.strategies.methods.framp import disturbed
from fedsub_papers.tests.again import again
from tests.methods import test_other_sizes as house
from tests.methods.test_other_sizes import FEDERATION, measured


def test_of_framp_the_common_model_is_the_mean_descriptors(tmp_path: Path) -> None:
    """Each of a size has the very same: the same samples would be answered alike."""
    found = measured("framp", tmp_path, capacities="p2=0.5,p4=0.5", sizes="0.5")
    assert found["loss_of_0.5"].keys() == {"p1", "p2", "p3", "p4"}
    assert found["loss_of_0.5"]["p2"] != found["loss"]["p2"], "p2 has a model of its own"


def test_a_descriptor_is_turned_and_blurred_as_far_as_was_asked() -> None:
    vector = torch.randn(400, generator=torch.Generator().manual_seed(0))

    def made(blur: float, angle: float) -> torch.Tensor:
        return disturbed(vector, blur, angle, torch.Generator().manual_seed(1))

    turned = made(0.0, np.pi / 3)
    torch.testing.assert_close(turned.norm(), vector.norm())
    assert float(turned @ vector / vector.norm() ** 2) == pytest.approx(0.5, abs=1e-4)
    away = (made(0.3, 0.0) - vector).norm() / vector.norm()
    assert float(away) == pytest.approx(0.3, rel=0.1)
    nothing = torch.zeros(4)
    assert disturbed(nothing, 1.0, 1.0, torch.Generator()) is nothing


@pytest.mark.parametrize("disturbance", [{"descriptor_noise": 0.5}, {"descriptor_rotation": 90.0}])
def test_with_disturbed_descriptors_people_get_other_models(
    disturbance: dict[str, float], run_method: RunMethod
) -> None:
    plain = run_method("framp", FEDERATION, rounds=2)
    other = run_method("framp", FEDERATION, hyper=disturbance, rounds=2)
    assert plain.metric("loss") != other.metric("loss")


@pytest.mark.parametrize("proxy", ["prefix", "magnitude", "random"])
def test_subflot_brings_the_global_model_to_another_proxy(
    proxy: str, run_method: RunMethod
) -> None:
    run = run_method("subflot", hyper={"proxy": proxy}, capacities="p2=0.5,p3=0.25", rounds=2)
    assert [len(run.models()[f"p{i}"]["linear1.bias"]) for i in (1, 2, 3)] == [128, 64, 32]
    assert not run.metric("refused_replies")
    history = run_method("subflot", capacities="p2=0.5,p3=0.25", rounds=2)
    assert run.metric("loss") != history.metric("loss")


def sent_of_half(run: Run, without: str = "") -> dict[str, Floats]:
    """Return what p2 is sent of half of the model that is nobody's, where one is forgotten."""
    strategy = run.strategy
    strategy.state = strategy.half.without(strategy.state or {}, without)
    (one,) = strategy.tested_holding(["p2"], 0.5)
    return {n: part for n, part in one.tensors.items() if isinstance(part, Floats)}


@pytest.mark.parametrize("name", ["flado", "adaptivefl"])
def test_what_was_noted_of_a_person_changes_no_size(name: str, run_method: RunMethod) -> None:
    run = run_method(name, FEDERATION, capacities="p2=0.5,p3=0.5", rounds=2)
    known, unknown = sent_of_half(run), sent_of_half(run, without="p2")
    assert len(known["linear1.bias"].values) < 128
    for tensor, part in known.items():
        assert np.array_equal(part.values, unknown[tensor].values), tensor


def test_of_feddse_a_size_has_the_units_most_often_chosen(run_method: RunMethod) -> None:
    """Of p2's and p3's choices those of both come first, then the first of one of them."""
    run = run_method("feddse", FEDERATION, capacities="p2=0.5,p3=0.5", rounds=2)
    state = run.states[-1]
    both, either = (
        op(*(set(state[f"choice/{c}/linear1"].tolist()) for c in ("p2", "p3")))
        for op in (set.intersection, set.union)
    )
    rest = sorted(either - both)[: 64 - len(both)]
    assert both and rest, "the two chose some alike"
    sent = sent_of_half(run)["linear1.bias"].at.rows
    assert sent is not None and sent.tolist() == sorted([*both, *rest])
    assert len(sent_of_half(run, without="p2")["linear1.bias"].values) == 64


test_ones_own_size_is_tested_as_ever_and_others_beside_it = again(
    house.test_ones_own_size_is_tested_as_ever_and_others_beside_it, "name", ["fiarse", "fedrolex"]
)
test_what_a_device_computes_is_counted_beside_what_it_really_does = again(
    house.test_what_a_device_computes_is_counted_beside_what_it_really_does,
    "name, smaller",
    [("fiarse", False), ("subflot", True)],
)
