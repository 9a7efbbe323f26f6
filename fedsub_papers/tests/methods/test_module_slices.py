"""Modules of one's own under methods that say with each message which units it has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.runs import RunMethod, assert_near_states, people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.federation import write_federation
from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import build_model
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import placements, units_at, units_in
from fedsub_core.training import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part
from fedsub_papers.client.parts.slices import SliceLearner
from fedsub_papers.models.pools import numbers, numbers_at, with_counts
from fedsub_papers.models.slicing import slice_groups, sliced_part
from fedsub_papers.strategies.methods.flado import multiplications_at
from strategies.parts.coverage import multiplications
from tests.methods.test_modules import place

SLICES = ("adaptivefl", "feddse", "flado", "flexfl")
MODELS = ("normalised", "recurrent", "convolved")
WEAK = {"p2": 0.5, "p3": 0.25}
SHARES = ",".join(f"{client}={share}" for client, share in WEAK.items())


def module(name: str) -> TorchModel:
    found = build_model(place(name), (4,), 3)
    assert isinstance(found, TorchModel)
    return found


class Scaled(nn.Module):
    """Units of two layers, added and scaled by frozen numbers; the last layer has no bias."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.first, self.way = nn.Linear(shape[0], 6), nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.linspace(0.5, 2.0, 6), requires_grad=False)
        self.last = nn.Linear(6, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = self.first(x).relu()
        x = (x + self.way(x)) * self.scale
        logits: Tensor = self.last(x)
        return logits


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [*SLICES, "subflot"])
def test_weak_devices_of_their_own_train_as_in_one_process(
    name: str, model: str, run_method: RunMethod, tmp_path: Path
) -> None:
    federation = people()
    write_federation(tmp_path / "data", federation)
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 2}
    keys |= {"lr": 0.05, "batch_size": 16, "model": place(model)}
    run = run_method(name, federation, **keys)
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **keys)
    grid, strategy = DeviceGrid(config, 4), build_strategy(config, name)
    strategy.run_name = "one run"
    strategy.start(grid)
    assert not strategy.transport.refusals and strategy.state is not None
    for key, tensor in strategy.state.items():
        torch.testing.assert_close(tensor, run.states[-1][key], atol=1e-6, rtol=0)
    whole = module(model)
    # What has one hidden layer is as long as that has units; AdaptiveFL's smallest has 0.4 of them.
    for client, most in (("p2", 0.55), ("p3", 0.45 if name == "adaptivefl" else 0.3)):
        parts = run.uploads[-1][client].tensors.values()
        sent = sum(part.values.size for part in parts if isinstance(part, Floats))
        assert 0 < sent < most * numbers(whole), "its part alone travels"


@pytest.mark.parametrize("norm", ["averaged", "local", "static"])
@pytest.mark.parametrize("name", SLICES)
def test_what_is_tested_is_the_part_alone(name: str, norm: str, run_method: RunMethod) -> None:
    """A whole model whose other numbers are 0 answers as the small one does."""
    run = run_method(name, model=place("convolved"), norm=norm, capacities=SHARES)
    assert not [row for row in run.rows if row.metric == "refused_replies"]
    model = run.strategy.model
    x = torch.randn(1, 7, 4, generator=torch.Generator().manual_seed(3))
    for client in WEAK:
        params = run.models()[client]
        (held,) = (c for c in run.grid.cohorts if client in {one.client for one in c.clients})
        whole = held.learner.model
        assert isinstance(whole, TorchModel)
        used = {
            group.name: np.flatnonzero(mask)
            for group in whole.unit_groups
            for mask in [_held(group.members[0], params)]
        }
        small, places = whole.narrow(used)
        part = {n: places[n].take(t)[None] for n, t in params.items()}
        expected = whole.forward({n: t[None] for n, t in params.items()}, x)
        torch.testing.assert_close(small.forward(part, x), expected, atol=1e-5, rtol=1e-5)
        assert sum(map(len, used.values())) < sum(g.size for g in model.unit_groups)


def _held(member: Any, params: dict[str, Tensor]) -> np.ndarray[Any, Any]:
    return params[member.tensor].flatten(1).abs().sum(1).numpy() > 0


@pytest.mark.parametrize("name", SLICES)
def test_parts_of_modules_travel_in_any_encoding(name: str, run_method: RunMethod) -> None:
    wire = {"upload_encoding": "delta,int8,zstd", "download_encoding": "bfloat16"}
    run = run_method(name, model=place("recurrent"), capacities=SHARES, **wire)
    assert not [row for row in run.rows if row.metric == "refused_replies"]
    assert all(torch.isfinite(tensor).all() for tensor in run.states[-1].values())


@pytest.mark.parametrize("name", sorted({*SLICES} - {"adaptivefl"}))
def test_where_all_hold_all_it_is_fedavg(name: str, run_method: RunMethod) -> None:
    hyper: dict[str, Any] = {"weights": "examples"} | ({"gamma": 0.0} if name == "flexfl" else {})
    ours = run_method(name, hyper=hyper, model=place("convolved"))
    theirs = run_method("fedavg", model=place("convolved"))
    assert_near_states(ours, theirs)


@pytest.mark.parametrize("name", SLICES)
def test_norms_over_units_are_refused_before_the_first_round(
    name: str, run_method: RunMethod
) -> None:
    with pytest.raises(ConfigError, match=r"layer stem: got units that a norm is over \(LayerNorm"):
        run_method(name, model=place("residual"), capacities=SHARES)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("share", [1.0, 0.7, 0.3])
def test_numbers_of_modules_are_counted_without_them(name: str, share: float) -> None:
    model = module(name)
    counts = {group.name: units_at(share, group.size) for group in model.unit_groups}
    small = with_counts(model, counts)
    assert numbers_at(model, counts) == numbers(small)
    assert multiplications_at(model, counts) == multiplications(small)


PUBLISHED = {"lstm": (3, 30), "resnet18": (3, 16, 16), "mobilenet-v2": (3, 16, 16)}


@pytest.mark.parametrize("name", [*MODELS, *PUBLISHED])
def test_a_message_says_which_units_it_has(name: str) -> None:
    model = build_model(name, PUBLISHED[name], 3) if name in PUBLISHED else module(name)
    stream = np.random.default_rng(4)
    declared = METHODS["flado"].sends(model, METHODS["flado"].hyperparameters())
    units = {
        group.name: np.sort(stream.choice(group.size, max(1, group.size // 3), replace=False))
        for group in model.unit_groups
    }
    parts = dict[str, Part]()
    for tensor, at in placements(model.unit_groups, model.parameter_shapes, units).items():
        values = at.take(np.zeros(model.parameter_shapes[tensor], np.float32))
        parts |= sliced_part(tensor, values, at, declared[tensor])
    assert list(parts) == list(declared)
    found = units_in(slice_groups(model), parts)
    assert found.keys() == units.keys()
    for group, own in units.items():
        np.testing.assert_array_equal(found[group], own)


def test_a_part_has_the_frozen_numbers_of_its_own_units() -> None:
    """Two clients of as many units, others each: each trains its own part of what is frozen."""
    card = METHODS["flado"]
    hyper, settings = card.hyperparameters(), TrainingSettings(lr=0.1, batch_size=4)
    model = TorchModel.of(Scaled, (3,), 2)
    (group,) = model.unit_groups
    assert "scale" in model.constants
    learner = card.load_learner()(model, settings, hyper, card.sends(model, hyper))
    assert isinstance(learner, SliceLearner)
    x = np.random.default_rng(2).normal(size=(8, 3)).astype(np.float32)
    y, turn = np.array([0, 1] * 4), Turn(1, 9, 0)
    data = stack(["a", "b"], [x, x], [y, y])
    state, masks = learner.init(2, 0), torch.zeros(2, 6, dtype=torch.bool)
    masks[0, [0, 1]] = masks[1, [4, 5]] = True
    state = learner.holding(state, {f"units.{group.name}": masks})
    after, uploads, _ = learner.trained(state, [Bundle(), Bundle()], data, turn)
    for i, kept in enumerate(([0, 1], [4, 5])):
        small, places = model.narrow({group.name: np.array(kept)})
        begun = {n: places[n].take(t[[i]], 1) for n, t in learner.get(state, "model").items()}
        expected = learner.train_part(small, begun, uploads[i], data.select([i]), turn).params
        for tensor, values in expected.items():
            mine = learner.get(after, "model")[tensor][i]
            torch.testing.assert_close(places[tensor].take(mine), values[0])


def test_units_that_a_frozen_layer_reads_stay() -> None:
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        made = nn.Sequential(
            *(nn.Linear(shape[0], 5), nn.Sigmoid(), nn.Linear(5, 6), nn.Sigmoid()),
            nn.Linear(6, classes),
        )
        made[2].requires_grad_(False)
        return made

    model = TorchModel.of(build, (3,), 2)
    assert [group.name for group in model.unit_groups] == ["0", "2"]
    assert [group.name for group in slice_groups(model)] == ["2"]
