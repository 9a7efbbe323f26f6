"""Modules of one's own under methods that say with each message which units it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.runs import RunMethod, next_from, people
from fedsub_client.parts.activity import activity
from fedsub_client.parts.slices import SliceLearner
from fedsub_core.config.run_config import RunConfig
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.federation import write_federation
from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import build_model, mlp
from fedsub_core.models.pools import numbers, numbers_at, pool_of, with_counts
from fedsub_core.models.slicing import slice_groups, sliced_part, units_in
from fedsub_core.models.to_torch import to_torch
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import placements, units_at
from fedsub_core.training import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.methods.flado import multiplications_at
from strategies.parts.coverage import multiplications

from .test_modules import place

SLICES = ("adaptivefl", "feddse", "flado")
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
@pytest.mark.parametrize("name", SLICES)
def test_weak_devices_of_their_own_train_as_in_one_process(
    name: str, model: str, run_method: RunMethod, tmp_path: Path
) -> None:
    federation = people()
    write_federation(tmp_path / "data", federation)
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 3}
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
    for state, expected in zip(ours.states, theirs.states, strict=True):
        for key, tensor in expected.items():
            torch.testing.assert_close(state[key], tensor, atol=1e-6, rtol=0)


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


@pytest.mark.parametrize("name", MODELS)
def test_a_message_says_which_units_it_has(name: str) -> None:
    model, stream = module(name), np.random.default_rng(4)
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
    found = units_in(model, parts)
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


def test_adaptivefls_pool_of_a_residual_net_is_narrow_from_a_group_on() -> None:
    """The residual stream is one group, which its first layer makes: the first of all."""
    model = module("convolved")
    pool = pool_of(model, (0.25, 0.5), (1, 2, 3))
    assert [level.counts for level in pool] == [
        {"stem": 2, "first": 2},
        {"stem": 8, "first": 2},
        {"stem": 4, "first": 4},
        {"stem": 8, "first": 4},
        {"stem": 8, "first": 8},
    ]
    for level in pool:
        assert level.share == numbers(with_counts(model, level.counts)) / numbers(model)


def test_a_weak_device_of_adaptivefl_has_room_for_its_models_of_a_module_alone(
    run_method: RunMethod,
) -> None:
    run = run_method("adaptivefl", model=place("convolved"), capacities="p2=0.5,p4=0.5")
    whole, held = module("convolved"), run.strategy.held_by("p2")
    assert {group.size for group in held.unit_groups} == {4}  # 0.4 of 8
    kept = {n: t.shape for n, t in run.client_state("p2").items() if n.startswith("model.")}
    assert kept["model.first.weight"] == (4, 4, 3) and numbers(held) < 0.4 * numbers(whole)


@pytest.mark.parametrize("often", [False, True])
def test_units_of_a_module_say_what_the_chains_do(often: bool) -> None:
    chain = mlp(4, 3, (5, 6))
    params, stream = chain.init(2, seed=6), np.random.default_rng(1)
    layers = to_torch(chain, {name: tensor[0] for name, tensor in params.items()})
    model = TorchModel.of(lambda shape, classes: layers.requires_grad_(), (4,), 3)
    xs = [stream.normal(size=(n, 4)).astype(np.float32) for n in (9, 4)]
    data = stack(["a", "b"], xs, [np.zeros(len(x), np.int64) for x in xs])
    expected = activity(chain, params, data, 4, often)
    own = dict(zip(model.tensor_shapes, params.values(), strict=True))
    found = activity(model, own, data, 4, often)
    for said, theirs in zip(found.values(), expected.values(), strict=True):
        assert said.dtype == torch.float64
        torch.testing.assert_close(said, theirs, atol=1e-6, rtol=0)
    assert activity(model, own, data, 100, often)[model.unit_groups[0].name].shape == (2, 5)


def test_units_of_a_residual_stream_say_what_all_see_who_read_it() -> None:
    model = TorchModel.of(Scaled, (3,), 2)
    params = model.init(1, seed=2)
    x = np.random.default_rng(5).normal(size=(7, 3)).astype(np.float32)
    data = stack(["a"], [x], [np.zeros(7, np.int64)])
    own = {name: tensor[0] for name, tensor in params.items()}
    first = torch.relu(torch.from_numpy(x) @ own["first.weight"].T + own["first.bias"])
    second = (first + first @ own["way.weight"].T + own["way.bias"]) * model.constants["scale"]
    expected = (first.mean(0) + second.relu().mean(0)) / 2
    (said,) = activity(model, params, data, 3).values()
    torch.testing.assert_close(said[0], expected.double(), atol=1e-6, rtol=0)


def test_feddses_devices_choose_units_of_a_module_by_what_they_say() -> None:
    card = METHODS["feddse"]
    hyper, model = card.hyperparameters(), TorchModel.of(Scaled, (3,), 2)
    settings = TrainingSettings(lr=0.1, batch_size=4)
    learner = card.load_learner()(model, settings, hyper, card.sends(model, hyper))
    x = np.random.default_rng(5).normal(size=(8, 3)).astype(np.float32)
    data = stack(["a"], [x], [np.array([0, 1] * 4)], capacities=[1 / 3])
    state = learner.init(1, 0)
    (said,) = activity(model, learner.get(state, "model"), data, 4).values()
    _, (upload,), _ = learner.fit(state, [Bundle()], data, Turn(1, 9, 0))
    chosen = units_in(model, upload.tensors)["first"]
    assert chosen.tolist() == sorted(said[0].argsort(descending=True)[:2].tolist())
    assert upload.part("way.weight").values.shape == (2, 2)
    assert upload.bits("way.weight.inputs").nonzero()[0].tolist() == chosen.tolist()


@pytest.mark.parametrize("tensor", ["lstm.weight_hh_l0", "lstm.bias_ih_l0", "last.weight"])
def test_feddse_refuses_a_tensor_of_other_units(tensor: str, run_method: RunMethod) -> None:
    run = run_method("feddse", model=place("recurrent"), capacities=SHARES, rounds=1)
    strategy, upload = run.strategy, run.uploads[-1]["p2"]
    assert strategy.state is not None
    strategy.delivered = {"p2": strategy.downloads(strategy.state, ["p1"], strategy.turn(1))[0]}
    sender = next_from(strategy, "p2")
    strategy.check(strategy.state, sender, upload)
    part = upload.part(tensor)
    rows = np.arange(len(part.at.held(strategy.model.parameter_shapes[tensor])))
    rows = rows[-len(part.values) :] if tensor != "last.weight" else rows[:1]
    values = part.values[: len(rows)]
    other = Floats(values, replace(part.at, rows=rows))
    with pytest.raises(MessageRefused, match=f"units of {tensor}: got others"):
        strategy.check(
            strategy.state, sender, replace(upload, tensors={**upload.tensors, tensor: other})
        )
