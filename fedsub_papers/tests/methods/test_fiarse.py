"""FIARSE: numbers by hand, the trap of the start, and when it is FedAvg."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.halves import HalfAlone, last_round
from fedsub.testing.one_number import Slope, one_number, samples
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import MessageRefused
from fedsub_core.methods.table import METHODS
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.layers import Linear
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.client.methods.fiarse import ImportanceGradient, chosen
from fedsub_papers.strategies.methods.fiarse import FIARSEServer
from fedsub_papers.strategies.parts.elements import best_elements, paths
from strategies.parts.coverage import positions_of
from strategies.rounds.context import Sender

SHARES = "p2=0.5,p3=0.25"
#: One unit of three inputs, whose bias is held and 0.
THREE = Chain((Linear("linear1", 1, 3),), (3,))
WEIGHT, BIAS = "linear1.weight", "linear1.bias"
PLAIN = {"score": "magnitude"}


def received(*weights: float) -> Bundle:
    """Return a download of the three weights that are not 0, without the bias."""
    row = np.array([weights], np.float32)
    none = Floats.elements(np.zeros(1, np.bool_), np.zeros(0, np.float32))
    return Bundle(tensors={WEIGHT: Floats.elements(row != 0, row[row != 0]), BIAS: none})


def three(slope: float, lr: float = 0.1, momentum: float = 0.0, **hyper: Any) -> Any:
    settings = TrainingSettings(lr=lr, momentum=momentum, batch_size=1)
    return one_number("fiarse", Slope(slope), settings, THREE, **(PLAIN | hyper))


def trained(learner: Any, download: Bundle, steps: int = 1) -> tuple[list[float], list[float]]:
    """Return the weights that are sent after some steps, and those that are kept."""
    data = samples(steps)
    data = replace(data, x=data.x.expand(1, steps, 3))
    state, (upload,), _ = learner.fit(learner.init(1, 0), [download], data, Turn(1, 9, 0))
    return upload.floats(WEIGHT).tolist(), state[f"model.{WEIGHT}"].flatten().tolist()


@pytest.mark.parametrize(("factor", "bent"), [(True, [0, 1.5, 1.4444]), (False, [0, 1.0, 1.0])])
def test_gradients_are_bent_by_how_near_a_number_is_to_the_threshold(
    factor: bool, bent: list[float]
) -> None:
    """Of (.2, -.4, .8) two are kept: th is .4."""
    weights = torch.tensor([[0.2, -0.4, 0.8]])
    mask = best_elements({WEIGHT: weights}, (2 / 3) ** 0.5, "magnitude")[WEIGHT]
    assert mask.tolist() == [[False, True, True]]
    sent, _ = trained(three(1.0, factor=factor), received(*(weights * mask)[0].tolist()))
    moved = [(w - after) / 0.1 for w, after in zip((-0.4, 0.8), sent, strict=True)]
    assert moved == pytest.approx(bent[1:], abs=1e-4)


def test_the_factor_is_the_straight_through_gradient_of_the_mask() -> None:
    """Autograd of ``w m(w)``: m is 1 where it is held, with the gradient of (s - th) / (s + th)."""
    stream = torch.Generator().manual_seed(4)
    params = {WEIGHT: torch.randn(2, 1, 3, generator=stream), BIAS: torch.zeros(2, 1)}
    masks = {WEIGHT: torch.tensor([[[True, True, False]], [[False, True, True]]])}
    gradient = ImportanceGradient(THREE, Slope(1.0))
    gradient.factor, gradient.scales = True, {WEIGHT: 3**0.5}
    gradient.chosen = chosen(params, masks, gradient.scales, "global")
    leaf = params[WEIGHT].clone().requires_grad_()
    size = leaf.abs() * 3**0.5
    least = size.masked_fill(~masks[WEIGHT], torch.inf).flatten(1).amin(1).detach().view(2, 1, 1)
    soft = (size - least) / (size + least)
    mask = (masks[WEIGHT].float() - soft).detach() + soft
    (leaf * mask).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    ones = torch.ones_like(leaf)
    found = gradient._bent(WEIGHT, params[WEIGHT], ones, gradient.chosen) * masks[WEIGHT]
    torch.testing.assert_close(found, leaf.grad * masks[WEIGHT])


def test_what_sinks_is_out_until_the_next_round_and_keeps_its_value() -> None:
    """At slope 1 and rate .1: .5 falls to .35, below th = .4, and stays there; momentum or not."""
    for momentum in (0.0, 0.9):
        learner = three(1.0, factor=False, lr=0.15, momentum=momentum)
        sent, kept = trained(learner, received(0.0, -0.4, 0.5), steps=3)
        assert sent[1] == pytest.approx(0.35, abs=1e-6)
        assert kept[0] == kept[2] == 0.0 and kept[1] == sent[0] < -0.8
    # Who holds everything drops nothing: .2 goes on through 0 to the other side.
    whole = received(0.2, -0.4, 0.5)
    bias = Floats.elements(np.ones(1, np.bool_), np.full(1, 9, np.float32))
    whole = Bundle(tensors={**whole.tensors, BIAS: bias})
    sent, kept = trained(three(1.0, factor=False, lr=0.15), whole, steps=2)
    assert sent == kept == pytest.approx([-0.1, -0.7, 0.2], abs=1e-6)


def test_thresholds_of_a_layer_are_its_own() -> None:
    params = {"a.weight": torch.tensor([[[3.0, 1.0]]]), "b.weight": torch.tensor([[[0.5, 0.2]]])}
    masks = {name: torch.ones_like(t, dtype=torch.bool) for name, t in params.items()}
    scaled = dict.fromkeys(params, 1.0)
    for scope, least in (("layer", [1.0, 0.2]), ("global", [0.2, 0.2])):
        found = chosen(params, masks, scaled, scope)
        assert [found[f"least/{n}"].item() for n in params] == pytest.approx(least)


def server(**hyper: Any) -> FIARSEServer:
    given = replace(METHODS["fiarse"].hyperparameters(), **hyper)
    config = RunConfig(method="fiarse", beside="", hyper={"fiarse": given})
    return FIARSEServer(config.server_settings("fiarse"))


def test_a_number_is_the_mean_over_who_holds_it() -> None:
    """Old 1; A sends .8 of the first, B lacks it: .8. Nobody sends the third: 1, to the bit."""
    old = torch.tensor([[1.0, 1.0, 1.0 + 2**-20]])
    none = Floats.elements(np.zeros(1, np.bool_), np.zeros(0, np.float32))

    def upload(mask: list[bool], *values: float) -> Bundle:
        part = Floats.elements(np.array([mask]), np.array(values, np.float32))
        return Bundle(30, tensors={WEIGHT: part, BIAS: none})

    sent = {"a": upload([True, True, False], 0.8, 0.5), "b": upload([False, True, False], 0.7)}
    strategy = HalfAlone(server(), THREE)
    state, rows = strategy.half.aggregate(
        {WEIGHT: old, BIAS: torch.ones(1)}, strategy.round(Turn(1, 9, 0)), sent
    )
    assert state[WEIGHT][0, :2].tolist() == pytest.approx([0.8, 0.6])
    assert state[WEIGHT][0, 2] == old[0, 2] and state[BIAS] == 1
    shares = [row.value for row in rows if row.metric == "multiplications_counted"]
    assert shares == pytest.approx([2 / 3, 1 / 3])


def start(model: Chain, seed: int) -> dict[str, Tensor]:
    return {name: tensor[0] for name, tensor in model.init(1, seed).items()}


@pytest.mark.parametrize(("c", "least"), [(1 / 2, 0.066), (1 / 4, 0.083), (1 / 8, 0.088)])
def test_by_size_alone_a_weak_device_is_sent_nothing_of_the_last_layer(
    c: float, least: float
) -> None:
    """Of 3-128-512-6: its numbers are at most .044."""
    model = start(mlp(3, 6), 0)
    sizes, scaled = best_elements(model, c, "magnitude"), best_elements(model, c)
    last = ("linear3.weight", "linear3.bias")
    assert max(float(model[name].abs().max()) for name in last) == pytest.approx(0.044, abs=5e-4)
    held = [model[name][mask].abs().min() for name, mask in sizes.items() if mask.any()]
    assert float(min(held)) == pytest.approx(least, abs=5e-4)
    assert not any(sizes[name].any() for name in last)
    assert scaled["linear3.weight"].any()
    for masks in (sizes, scaled):
        assert sum(int(mask.sum()) for mask in masks.values()) == int(c * c * 69_638)


def test_in_each_layer_its_own_share_is_held() -> None:
    masks = best_elements(start(mlp(3, 6), 0), 0.25, scope="layer")
    for layer, size in (("linear1", 512), ("linear2", 66_048), ("linear3", 3_078)):
        held = sum(int(m.sum()) for name, m in masks.items() if name.startswith(layer))
        assert held == size // 16
    assert sum(int(m.sum()) for m in best_elements({"w": torch.ones(3)}, 0.1).values()) == 1


@pytest.mark.parametrize("seed", range(5))
def test_below_a_sixteenth_an_mlp_has_hardly_a_path_left(seed: int) -> None:
    def left(model: Chain, c: float) -> Tensor:
        return paths(model, best_elements(start(model, seed), c))

    few, some = left(mlp(3, 6), 1 / 8), left(mlp(3, 6), 1 / 4)
    assert few.sum() < 20 and (few == 0).any(), "1/64 of its numbers"
    assert 250 < some.sum() < 450 and (some > 0).all(), "1/16"
    assert 60 < left(cnn1d(9, 128, 6), 1 / 8).sum() < 220


def test_paths_are_counted_through_convolutions_and_behind_flatten() -> None:
    model = cnn1d(2, 32, 3)
    whole = {n: torch.ones(shape, dtype=torch.bool) for n, shape in model.parameter_shapes.items()}
    sizes = [layer.weight_shape for layer in model.affine]
    every = np.prod([float(np.prod(shape[1:])) for shape in sizes])
    assert paths(model, whole).tolist() == [every] * 3
    whole["conv1.weight"][:, 0] = False
    assert paths(model, whole).tolist() == [every / 2] * 3


def test_multiplications_are_counted_at_every_place_of_a_convolution() -> None:
    """Of 32 samples of time the first has a stride of 2, and pooling halves what the other sees."""
    found = positions_of(cnn1d(2, 32, 3))
    assert found == {
        "conv1.weight": 16,
        "conv2.weight": 8,
        "linear1.weight": 1,
        "linear2.weight": 1,
    }
    assert positions_of(mlp(3, 6)) == {f"linear{i}.weight": 1 for i in (1, 2, 3)}


def test_a_weak_devices_multiplications_are_counted_beside_the_real_ones(
    run_method: RunMethod,
) -> None:
    run = run_method("fiarse", capacities=SHARES, rounds=1)
    counted, real = (run.metric(f"multiplications_{what}") for what in ("counted", "real"))
    assert counted[1, "p1"] == 1.0 and set(real.values()) == {1.0}
    for client, share in (("p2", 0.5), ("p3", 0.25)):
        assert counted[1, client] == pytest.approx(share**2, abs=0.01)


def test_a_run_says_of_which_capacity_no_model_is_left(
    run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fedsub"):
        run_method("fiarse", capacities="p2=0.5,p3=1/64", rounds=2)
    said = [line for line in caplog.messages if "no path" in line]
    assert len(said) == 1 and "of a device of capacity 0.015625 no path is left" in said[0]
    assert "3 of 3 classes (sit, walk, run)" in said[0]


def test_with_whole_devices_and_plain_gradients_it_is_fedavg(run_method: RunMethod) -> None:
    theirs = run_method("fedavg").states
    for factor in (False, True):
        ours = run_method("fiarse", hyper={"factor": factor, "weights": "examples"}).states
        away = max(
            float((state[n] - t).abs().max())
            for state, expected in zip(ours, theirs, strict=True)
            for n, t in expected.items()
        )
        assert (away < 1e-6) == (not factor), away


@pytest.mark.parametrize("scope", ["global", "layer"])
def test_a_weak_device_trains_and_sends_its_share_of_the_numbers(
    scope: str, run_method: RunMethod
) -> None:
    run = run_method("fiarse", hyper={"scope": scope}, capacities=SHARES)
    whole = run.strategy.model.full_bytes / 4
    sent, down = run.metric("bytes_up_sent"), run.metric("bytes_down_sent")
    for client, share in (("p1", 1.0), ("p2", 0.5), ("p3", 0.25)):
        model = run.models()[client]
        assert sum(int((t != 0).sum()) for t in model.values()) <= share**2 * whole + 6
        for each in (sent, down):
            expected = share**2 * 4 * whole + whole / 8
            assert each[3, client] == pytest.approx(expected, abs=300)
    assert not run.metric("refused_replies")
    assert run.metric("loss")[3, "p3"] < 1.05, "who knows nothing has ln 3, 1.10"


def test_devices_of_their_own_train_as_in_one_process(
    run_method: RunMethod, tmp_path: Path
) -> None:
    federation = people()
    write_federation(tmp_path / "data", federation)
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 3}
    keys |= {"lr": 0.05, "batch_size": 16}
    stacked = run_method("fiarse", federation, **keys)
    config = RunConfig(method="fiarse", beside="", device="cpu", threads=1, **keys)
    grid, strategy = DeviceGrid(config, 4), build_strategy(config, "fiarse")
    strategy.start(grid)
    assert not strategy.transport.refusals and strategy.state is not None
    assert_equal(strategy.state, stacked.states[-1])


def test_other_numbers_than_were_sent_are_refused(run_method: RunMethod) -> None:
    run = run_method("fiarse", capacities=SHARES)
    state, upload = run.states[-1], run.uploads[-1]["p2"]
    sender = Sender("p2", Turn(3, 3, 0))
    run.strategy.half.check(state, last_round(run.strategy), sender, upload)
    name = "linear2.weight"
    turned = Floats.elements(~upload.part(name).at.held((512, 128)), np.zeros(0, np.float32))
    other = replace(upload, tensors={**upload.tensors, name: turned})
    with pytest.raises(MessageRefused, match=r"client 'p2'.* numbers of \['linear2.weight'\]"):
        run.strategy.half.check(state, last_round(run.strategy), sender, other)
