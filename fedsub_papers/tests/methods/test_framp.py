"""FRAMP: numbers by hand, what descriptors do, and weak devices."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.halves import last_round
from fedsub.testing.runs import Run, RunMethod, assert_equal, people
from fedsub_core.config.robust import RobustSettings
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.models.kinds import mlp
from fedsub_core.training import CE, Turn
from fedsub_core.training.batches import Batch
from fedsub_core.training.gradients import batch_gradient
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.client.methods.framp import ClassMeanPull, descriptor, perturbed
from fedsub_papers.methods.framp import FRAMPHyperparameters
from fedsub_papers.strategies.methods.framp import FRAMPServer, numbered
from fedsub_papers.strategies.parts.hypernetwork import (
    added,
    filtered,
    generated,
    learnt,
    network,
    no_farther,
    stepped,
)
from strategies.parts.prototype_means import mean_prototypes
from strategies.rounds.context import Sender

SHARES = "p2=0.5,p3=0.25"
FEW = people(((0, 1, 2),) * 4, samples=15)


def strategy_of(run: Run) -> FRAMPServer:
    assert isinstance(run.strategy.half, FRAMPServer)
    return run.strategy.half


def test_the_network_goes_along_with_what_clients_moved_by() -> None:
    """Omega = phi * v: v 2, phi .5, delta -.3, beta .1: phi .44, omega .88. Against it: 1.12."""

    def product(phi: Any, vectors: Tensor) -> dict[str, Tensor]:
        return {"omega": phi["phi"] * vectors}

    phi, v = {"phi": torch.tensor(0.5)}, torch.tensor([[2.0]])
    after = stepped(phi, v, torch.tensor([[-0.3]]), 0.1, product)
    assert after["phi"].item() == pytest.approx(0.44)
    assert product(after, v)["omega"].item() == pytest.approx(0.88)
    # Of several clients it is the mean: here of -.6 and 0.
    two = stepped(phi, torch.tensor([[2.0], [1.0]]), torch.tensor([[-0.3], [0.0]]), 0.1, product)
    assert two["phi"].item() == pytest.approx(0.47)


def test_the_networks_step_is_the_transposed_jacobian() -> None:
    start, stream = {"w": torch.randn(2, 3), "b": torch.randn(2)}, torch.Generator().manual_seed(1)
    phi = network(start, 4, 5, stream)
    v, moves = torch.randn(2, 4), torch.randn(2, 8)
    found = stepped(phi, v, moves, 0.5)
    for name, tensor in phi.items():

        def made(own: Tensor, name: str = name) -> Tensor:
            return torch.cat([t.flatten(1) for t in generated(phi | {name: own}, v).values()], 1)

        jacobian = torch.autograd.functional.jacobian(made, tensor)  # type: ignore[no-untyped-call]
        expected = tensor + 0.5 * torch.tensordot(moves, jacobian, 2) / 2
        torch.testing.assert_close(found[name], expected)


def test_at_first_the_mean_descriptors_model_is_the_plain_start() -> None:
    model = mlp(4, 3)
    start = {name: tensor[0] for name, tensor in model.init(1, 0).items()}
    phi = network(start, 128, 100, torch.Generator().manual_seed(0))
    assert sum(t.numel() for t in phi.values()) == pytest.approx(101 * 69_000, rel=0.02)
    mean, other = (generated(phi, v) for v in (torch.zeros(1, 128), torch.randn(1, 128)))
    for name, tensor in start.items():
        torch.testing.assert_close(mean[name][0], tensor, atol=1e-6, rtol=0)
        if tensor.numel() > 100:
            # Else logits would be tiny or huge, and nothing would train.
            assert 0.95 < float(other[name].std() / tensor.std()) < 1.05
            assert 0.03 < float((other[name] - tensor).std() / tensor.std()) < 0.2


def prototypes(*rows: float) -> Bundle:
    values = np.array([rows], np.float32)
    return Bundle(9, tensors={"prototypes": Floats.rows(np.array([False, True]), values)})


def test_prototypes_are_the_mean_over_who_has_the_class() -> None:
    state = {"prototypes": torch.full((2, 2), 7.0), "held": torch.tensor([True, False])}
    sent = {"a": prototypes(1.0, 3.0), "b": prototypes(3.0, 5.0)}
    after = mean_prototypes(state, sent, RobustSettings())
    assert after["prototypes"].tolist() == [[7.0, 7.0], [2.0, 4.0]], "nobody sent the first"
    assert after["held"].tolist() == [True, True]


def test_a_batchs_class_means_are_pulled() -> None:
    """By hand, with padding, a class without a prototype and one that the batch lacks."""
    model = mlp(2, 4, (3,))
    params = model.init(1, 0)
    x = torch.randn(1, 6, 2)
    y = torch.tensor([[0, 0, 1, 2, 2, 0]])
    weight = torch.tensor([[0.2] * 5 + [0.0]])
    held = torch.tensor([[True, False, True, True]])
    p = torch.randn(1, 4, 3)
    found = batch_gradient(model, params, Batch(x, y, weight, 0), CE + ClassMeanPull(p, held, 0.7))
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in params.items()}
    h = (x[0] @ leaves["linear1.weight"][0].T + leaves["linear1.bias"][0]).relu()
    logits = h @ leaves["linear2.weight"][0].T + leaves["linear2.bias"][0]
    loss = torch.nn.functional.cross_entropy(logits[:5], y[0, :5])
    loss = loss + 0.7 * ((h[:2].mean(0) - p[0, 0]) ** 2).mean()
    loss = loss + 0.7 * ((h[3:5].mean(0) - p[0, 2]) ** 2).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    for name, leaf in leaves.items():
        torch.testing.assert_close(found[name], leaf.grad)
    assert not ClassMeanPull(p, held & False, 0.7).active, "the first round has no pull"


def test_a_descriptor_is_the_mean_of_random_features_whoever_is_beside() -> None:
    draws = np.random.default_rng(0)
    xs = [draws.normal(size=(n, 3)).astype(np.float32) for n in (5, 9)]
    data = stack(["a", "b"], xs, [np.zeros(len(x), np.int64) for x in xs])
    one = stack(["a"], xs[:1], [np.zeros(5, np.int64)])
    assert torch.equal(descriptor(data, 0, 128, 0), descriptor(one, 0, 128, 0))
    assert not torch.equal(descriptor(data, 0, 128, 0), descriptor(data, 0, 128, 1))
    assert descriptor(data, 1, 128, 0).min() >= 0
    # One sample's is the layer's output, and means are linear in samples.
    each = [stack(["a"], [xs[0][i : i + 1]], [np.zeros(1, np.int64)]) for i in range(5)]
    mean = torch.stack([descriptor(one, 0, 128, 0) for one in each]).mean(0)
    torch.testing.assert_close(mean, descriptor(data, 0, 128, 0))


def test_descriptors_travel_once_and_make_models_differ(run_method: RunMethod) -> None:
    run = run_method("framp", FEW)
    assert [["descriptor" in u.tensors for u in one.values()] for one in run.uploads] == [
        [True] * 4,
        [False] * 4,
        [False] * 4,
    ]
    assert len(run.metric("descriptor_spread")) == 1
    assert 0 < run.metric("descriptor_spread")[1, ""] < 1
    vectors = strategy_of(run).vectors(run.states[-1], ["p1", "p2", "nobody"])
    assert not vectors[2].any() and vectors.abs().max() <= 3
    assert (vectors[0] - vectors[1]).norm() > 5
    models = run.models()
    assert not torch.equal(models["p1"]["linear1.weight"], models["p2"]["linear1.weight"])
    # Whoever is forgotten is nobody to the server.
    left = strategy_of(run).without(run.states[-1], "p2")
    assert left["descriptors"].shape == (3, 128)
    assert not strategy_of(run).vectors(left, ["p2"]).any()


def test_descriptors_travel_again_after_some_rounds(run_method: RunMethod) -> None:
    """Of the same samples they say the same, so models are those of a run that asks once."""
    once = run_method("framp", FEW)
    run = run_method("framp", FEW, hyper={"descriptor_every": 2})
    asked = [{"descriptor" in u.tensors for u in one.values()} for one in run.uploads]
    assert asked == [{True}, {False}, {True}]
    assert_equal(run.states[-1], once.states[-1])


def test_what_is_no_description_of_data_is_not_described_anew(run_method: RunMethod) -> None:
    hyper = {"descriptor": "drawn", "descriptor_every": 2}
    with pytest.raises(ConfigError, match="descriptor-every: got 2 beside descriptor = drawn"):
        run_method("framp", FEW, hyper=hyper)


def test_a_number_of_ones_own_stays_when_another_is_forgotten(run_method: RunMethod) -> None:
    """Of four people three have a number; who comes when one is free takes it."""
    run = run_method("framp", FEW, hyper={"descriptor": "one-hot", "size": 3})
    strategy, state = strategy_of(run), run.states[-1]
    assert state["descriptors"].tolist() == np.eye(3).tolist()
    vectors = strategy.vectors(state, ["p1", "p2", "p3", "p4"])
    torch.testing.assert_close(vectors, torch.eye(4, 3) * 3**0.5)
    left = numbered(strategy.without(state, "p2"), ["p4"])
    vectors = strategy.vectors(left, ["p1", "p2", "p3", "p4"])
    expected = torch.eye(3)[[0, 1, 2, 1]]
    expected[1] = 0
    torch.testing.assert_close(vectors, expected * 3**0.5)


@pytest.mark.parametrize("kind", ["none", "drawn", "one-hot"])
def test_descriptors_that_say_nothing_of_data_do_not_travel(
    kind: str, run_method: RunMethod
) -> None:
    """Equal ones and no pull: all clients get one model."""
    run = run_method("framp", FEW, hyper={"descriptor": kind, "lam": 0.0})
    assert not any("descriptor" in u.tensors for one in run.uploads for u in one.values())
    first, *others = run.models().values()
    same = [torch.equal(first[name], model[name]) for model in others for name in first]
    assert all(same) if kind == "none" else not any(same)


def test_a_device_trains_its_features_each_time_that_it_is_asked(run_method: RunMethod) -> None:
    hyper = {"descriptor": "trained", "descriptor_every": 2}
    run = run_method("framp", FEW, hyper=hyper, rounds=3)
    asked = [{"descriptor" in u.tensors for u in one.values()} for one in run.uploads]
    assert asked == [{True}, {False}, {True}]
    first, last = (run.uploads[r]["p1"].floats("descriptor") for r in (0, 2))
    assert np.abs(first - last).max() > 1e-3 and min(first.min(), last.min()) >= 0


def test_prototypes_are_rotated_by_one_matrix_and_blurred(run_method: RunMethod) -> None:
    """By the definition: lengths and angles stay under rotation; noise has ``a ||P||``."""
    plain = torch.randn(3, 5, 64, generator=torch.Generator().manual_seed(5))
    people, turn = ("a", "b", "c"), Turn(2, 9, 7)
    rotated = perturbed(plain, people, turn, FRAMPHyperparameters(prototype_rotation=True))
    flat, turned = plain.flatten(0, 1), rotated.flatten(0, 1)
    torch.testing.assert_close(turned @ turned.T, flat @ flat.T, atol=1e-4, rtol=1e-5)
    assert (turned - flat).norm() > 0.5 * flat.norm()
    noised = perturbed(plain, people, turn, FRAMPHyperparameters(prototype_noise=0.5)) - plain
    assert float((noised / plain.norm(dim=2, keepdim=True)).std()) == pytest.approx(0.5, rel=0.1)
    alone = perturbed(plain[1:2], ("b",), turn, FRAMPHyperparameters(prototype_noise=0.5))
    assert torch.equal(alone[0], (plain + noised)[1])
    # What is disturbed is what travels, and the descriptors are as they were.
    runs = [run_method("framp", FEW, rounds=1, hyper={"prototype_noise": a}) for a in (0.0, 0.5)]
    sent = [run.uploads[0]["p1"] for run in runs]
    plainly, noisily = sent
    assert np.array_equal(plainly.floats("descriptor"), noisily.floats("descriptor"))
    away = plainly.part("prototypes").values - noisily.part("prototypes").values
    assert np.abs(away).max() > 0.01


def test_a_frozen_network_describes_who_comes_late_and_learns_nothing(
    run_method: RunMethod,
) -> None:
    """Fig. 6: models of people who were not there are generated from their descriptors alone."""
    keys = {"split": "unseen", "unseen_share": 0.25, "unseen_rounds": 1, "rounds": 3}
    run = run_method("framp", FEW, hyper={"freeze_after": 2}, **keys)
    before, after = run.states[-2:]
    moved = {n for n, t in after.items() if n not in before or not torch.equal(t, before[n])}
    assert moved == {"clients", "descriptors"}
    (late,) = run.strategy.population.agreed.unseen
    assert strategy_of(run).vectors(after, [late]).any()


def test_who_joins_late_is_tested_with_a_model_of_its_own(run_method: RunMethod) -> None:
    keys = {"split": "unseen", "unseen_share": 0.25, "unseen_rounds": 1}
    run = run_method("framp", FEW, **keys)
    strategy, state = strategy_of(run), run.states[-1]
    (late,) = run.strategy.population.agreed.unseen
    assert "descriptor" in run.uploads[-1][late].tensors
    (tested,) = run.strategy.tested_downloads([late])
    (mean,) = strategy.models(state, ["nobody"])
    away = tested.floats("linear1.weight") - mean["linear1.weight"].flatten().numpy()
    assert np.abs(away).max() > 0.01


def test_weak_devices_hold_the_largest_numbers_of_their_own_models(run_method: RunMethod) -> None:
    run = run_method("framp", FEW, capacities=SHARES)
    whole = run.strategy.model.full_bytes // 4
    for client, share in (("p1", 1.0), ("p2", 0.5), ("p3", 0.25)):
        upload = run.uploads[-1][client]
        names = [name for name in upload.tensors if name.startswith("linear")]
        assert sum(upload.floats(name).size for name in names) == int(share**2 * whole)
        numbers = sum(int((t != 0).sum()) for t in run.models()[client].values())
        assert numbers == pytest.approx(share**2 * whole, abs=3)
    assert not run.metric("refused_replies")


@pytest.mark.parametrize("kind", ["features", "trained"])
def test_devices_of_their_own_train_as_in_one_process(
    kind: str, run_method: RunMethod, tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", FEW)
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 2}
    keys |= {"lr": 0.05, "batch_size": 16}
    own = FRAMPHyperparameters(descriptor=kind)
    stacked = run_method("framp", FEW, hyper={"descriptor": kind}, **keys)
    run: dict[str, Any] = {"device": "cpu", "threads": 1, "hyper": {"framp": own}}
    config = RunConfig(method="framp", beside="", **run, **keys)
    grid, strategy = DeviceGrid(config, 4), build_strategy(config, "framp")
    strategy.start(grid)
    assert not strategy.transport.refusals and strategy.state is not None
    for name, tensor in stacked.states[-1].items():
        torch.testing.assert_close(strategy.state[name], tensor, atol=1e-5, rtol=0)


def test_a_run_of_weak_devices_goes_on_to_the_same_bits(run_method: RunMethod) -> None:
    whole = run_method("framp", FEW, capacities=SHARES, rounds=3)
    half = run_method("framp", FEW, capacities=SHARES, rounds=3, until=1)
    resumed = run_method("framp", FEW, capacities=SHARES, rounds=3, after=half)
    assert_equal(resumed.lasting, whole.lasting)


def test_a_descriptor_that_was_asked_for_is_demanded(run_method: RunMethod) -> None:
    run = run_method("framp", FEW, rounds=1)
    state, upload = run.states[-1], run.uploads[0]["p1"]
    sender = Sender("p1", Turn(1, 1, 0))
    run.strategy.half.check(state, last_round(run.strategy), sender, upload)
    below = Floats(np.full(128, -0.1, np.float32))
    without = {name: part for name, part in upload.tensors.items() if name != "descriptor"}
    for tensors, got in ((without, "none"), (without | {"descriptor": below}, "a mean of -0.1")):
        with pytest.raises(MessageRefused, match=f"client 'p1'.*descriptor: got {got}"):
            run.strategy.half.check(
                state, last_round(run.strategy), sender, replace(upload, tensors=tensors)
            )


def test_a_descriptor_that_nobody_asked_for_is_refused(run_method: RunMethod) -> None:
    run = run_method("framp", FEW, rounds=2)
    upload = run.uploads[1]["p1"]
    own = Floats(np.full(128, 1.0, np.float32))
    other = replace(upload, tensors={**upload.tensors, "descriptor": own})
    with pytest.raises(MessageRefused, match=r"descriptor: got one, expected none"):
        run.strategy.half.check(
            run.states[-1], last_round(run.strategy), Sender("p1", Turn(2, 2, 0)), other
        )


def test_a_few_cannot_decide_the_networks_step() -> None:
    honest = torch.tensor([[1.0, 2.0], [1.1, 2.1], [0.9, 1.9], [1.0, 2.2]])
    moves = torch.cat([honest, torch.tensor([[-500.0, 900.0]])])
    held, lengths = torch.ones_like(moves, dtype=torch.bool), moves.norm(dim=1)
    plain, kept = filtered(moves, held, lengths, RobustSettings(clip=False))
    assert torch.equal(plain, moves) and kept.tolist() == [0, 1, 2, 3, 4]
    clipped, _ = filtered(moves, held, lengths, RobustSettings())
    assert float(clipped[4].norm()) < 7.5 and torch.equal(clipped[:4], honest)
    _, kept = filtered(moves, held, lengths, RobustSettings(clip=False, multi_krum=True))
    assert kept.tolist() == [0, 1, 2, 3]
    trimmed, _ = filtered(moves, held, lengths, RobustSettings(clip=False, mean="trimmed-mean"))
    assert trimmed[4].tolist() == pytest.approx([0.9, 2.2])
    held[0, 0] = False
    middle, _ = filtered(moves * held, held, lengths, RobustSettings(clip=False, mean="median"))
    assert middle[0].tolist() == pytest.approx([0.0, 2.1])
    assert middle[1:].tolist() == [pytest.approx([0.9, 2.1])] * 4


def test_of_three_who_hold_a_number_one_moves_it_no_farther_than_another() -> None:
    """Moves of 1; of ten one may go three times as far, of the three holders of the second 1."""
    moves = torch.ones(10, 2)
    moves[0] = 1e3
    held = torch.tensor([[True, i < 3] for i in range(10)])
    moves *= held
    clipped, _ = filtered(moves, held, moves.norm(dim=1), RobustSettings())
    assert torch.equal(clipped[3:], moves[3:])
    assert 0 < clipped[0, 1] <= 1 and clipped[0, 0] <= 3 * 2**0.5


def test_what_a_move_adds_is_the_length_of_its_transposed_jacobian() -> None:
    stream = torch.Generator().manual_seed(2)
    phi = network({"w": torch.randn(2, 3), "b": torch.randn(2)}, 4, 5, stream)
    v, moves = torch.randn(3, 4), torch.randn(3, 8)
    found = added(phi, v, moves)
    for i in range(3):
        after = stepped(phi, v[i : i + 1], moves[i : i + 1], 1.0)
        way = torch.cat([(after[name] - tensor).flatten() for name, tensor in phi.items()])
        assert float(found[i]) == pytest.approx(float(way.norm()), rel=1e-4)


@pytest.mark.parametrize("most", [0.0, 0.1, 1.0])
def test_no_step_moves_the_median_model_farther_than_it_may(most: float) -> None:
    stream = torch.Generator().manual_seed(3)
    phi = network({"w": torch.randn(6, 3, generator=stream)}, 4, 5, stream)
    v, moves = torch.randn(5, 4, generator=stream), torch.randn(5, 18, generator=stream)
    after = stepped(phi, v, moves, 5.0)
    held = no_farther(phi, after, v, most)
    far = (generated(held, v)["w"] - generated(phi, v)["w"]).flatten(1).norm(dim=1).median()
    assert 0.8 * most <= far <= most
    assert no_farther(phi, after, v, 1e6) is after, "a short step is as it was"
    lost = {name: tensor * float("inf") for name, tensor in after.items()}
    assert_equal(no_farther(phi, lost, v, most), phi)


@pytest.mark.parametrize("attack", ["away", "one way"])
def test_who_has_an_unusual_descriptor_makes_no_model_run_away(attack: str) -> None:
    """Others move by 3 to where they want to be; unbounded, models left all bounds in 20 rounds."""
    stream = torch.Generator().manual_seed(4)
    start = {"w": torch.randn(20, 10, generator=stream)}
    v = torch.randn(10, 16, generator=stream)
    v[0] *= 3
    wanted = start["w"].flatten() + torch.randn(10, 200, generator=stream)
    fixed = 100 * torch.randn(200, generator=stream)
    phi, held = network(start, 16, 30, stream), torch.ones(10, 200, dtype=torch.bool)
    left = [float(torch.inf)]
    for _ in range(60):
        away = wanted - generated(phi, v)["w"].flatten(1)
        left.append(float(away[1:].norm(dim=1).max()))
        moves = away * (3 / away.norm(dim=1, keepdim=True)).clamp(max=0.5)
        moves[0] = fixed if attack == "one way" else -30 * moves[0]
        phi = learnt(phi, v, moves, held, 0.12, RobustSettings())
    assert max(left[1:]) < 1.5 * left[1] and left[-1] < 0.8 * left[1]
