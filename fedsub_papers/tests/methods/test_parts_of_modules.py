"""What single methods that cut modules of one's own into parts do with their units."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

from fedsub.testing.halves import next_from, next_round
from fedsub.testing.runs import RunMethod
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import stack
from fedsub_core.errors import MessageRefused
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import mlp
from fedsub_core.models.to_torch import to_torch
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import units_at, units_in
from fedsub_core.training import Turn
from fedsub_core.training.batches import Batch
from fedsub_core.training.objectives import Forward
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.client.methods.flexfl import Taught
from fedsub_papers.client.parts.activity import activity
from fedsub_papers.methods.flexfl import APOZ
from fedsub_papers.models.pools import numbers, pool_of, widths_for, with_counts
from fedsub_papers.models.slicing import slice_groups
from tests.methods.test_modules import place

from .test_module_slices import SHARES, Scaled, module


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
    whole, held = module("convolved"), run.strategy.round(1).held_by("p2")
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
    chosen = units_in(slice_groups(model), upload.tensors)["first"]
    assert chosen.tolist() == sorted(said[0].argsort(descending=True)[:2].tolist())
    assert upload.part("way.weight").values.shape == (2, 2)
    assert upload.bits("way.weight.inputs").nonzero()[0].tolist() == chosen.tolist()


@pytest.mark.parametrize("tensor", ["lstm.weight_hh_l0", "lstm.bias_ih_l0", "last.weight"])
def test_feddse_refuses_a_tensor_of_other_units(tensor: str, run_method: RunMethod) -> None:
    run = run_method("feddse", model=place("recurrent"), capacities=SHARES, rounds=1)
    strategy, upload = run.strategy, run.uploads[-1]["p2"]
    assert strategy.state is not None
    (sent,) = strategy.half.downloads(strategy.state, strategy.round(1), ["p1"])
    round = next_round(strategy, sent={"p2": sent})
    sender = next_from(strategy, "p2")
    strategy.half.check(strategy.state, round, sender, upload)
    part = upload.part(tensor)
    rows = np.arange(len(part.at.held(strategy.model.parameter_shapes[tensor])))
    rows = rows[-len(part.values) :] if tensor != "last.weight" else rows[:1]
    values = part.values[: len(rows)]
    other = Floats(values, replace(part.at, rows=rows))
    with pytest.raises(MessageRefused, match=f"units of {tensor}: got others"):
        strategy.half.check(
            strategy.state,
            round,
            sender,
            replace(upload, tensors={**upload.tensors, tensor: other}),
        )


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 1.0])
def test_flexfls_models_of_a_residual_net_keep_to_their_budget(share: float) -> None:
    model = module("convolved")
    counts = widths_for(model, (0.2, 0.6), share)
    assert numbers(with_counts(model, counts)) <= share * numbers(model)
    assert share == 1 or counts["first"] < counts["stem"], "the more silent is the narrower"
    # The stream is made by the stem and each block's last layer, norms included.
    made = 8 * 5 + 4 * 8 + 8 * 8 * 3 + 4 * 8, 8 * 8 * 3 + 4 * 8
    assert counts == counts_by_hand(made, (0.2, 0.6), share, model)


def counts_by_hand(
    sizes: tuple[int, int], zeros: tuple[float, float], share: float, model: TorchModel
) -> dict[str, int]:
    scores = [1 - z * log(size) / log(max(sizes)) for z, size in zip(zeros, sizes, strict=True)]
    for k in range(1, 10**6):
        widths = [min(max(score * 100 / k, 0.01), 1.0) for score in scores]
        counts = {n: units_at(w, 8) for n, w in zip(("stem", "first"), widths, strict=True)}
        if numbers(with_counts(model, counts)) <= share * numbers(model):
            return counts
    raise AssertionError


def test_flexfls_devices_say_how_silent_groups_of_a_module_are(run_method: RunMethod) -> None:
    run = run_method("flexfl", model=place("convolved"), capacities=SHARES)
    first, *later = run.uploads
    assert first.keys() == {"p1", "p4"}, "who holds all trains in the first round"
    for upload in first.values():
        zeros = upload.floats(APOZ)
        assert zeros.shape == (2,) and zeros.min() >= 0 and zeros.max() < 1
    assert all(APOZ not in upload.tensors for uploads in later for upload in uploads.values())
    counts = widths_for(run.strategy.model, run.states[0][APOZ].tolist(), 0.25)
    units = units_in(slice_groups(run.strategy.model), run.uploads[-1]["p2"].tensors)
    assert {name: own.tolist() for name, own in units.items()} == {
        name: list(range(count)) for name, count in counts.items()
    }


def test_a_smaller_model_of_a_recurrent_one_teaches_by_its_units_rows() -> None:
    """A unit's rows are one in each gate, and do not stand in front."""
    model = module("recurrent")
    part = model.narrow({"lstm": np.arange(3)})
    params, stream = model.init(1, 5), torch.Generator().manual_seed(1)
    x, y = torch.randn(1, 6, 4, generator=stream), torch.zeros(1, 6).long()
    made = model.training_pass(params, x)
    batch = Batch(x, y, torch.full((1, 6), 1 / 6), 0)
    found = Taught((part,), 10.0, 3.0).loss(Forward(params, batch, *made), {})
    rows = [gate * 10 + unit for gate in range(4) for unit in range(3)]
    own = {n: t[:, rows] if n.startswith("lstm") else t for n, t in params.items()}
    own["lstm.weight_hh_l0"] = own["lstm.weight_hh_l0"][:, :, :3]
    own["last.weight"] = own["last.weight"][:, :, :3]
    p, q = (t.div(3).softmax(-1) for t in (part[0].forward(own, x), made.outputs[0]))
    expected = 10.0 * 9 * (p * (p.log() - q.log())).sum(-1).mean() / 3
    torch.testing.assert_close(found, expected)
