"""CA-AFP: its phases, its masks by group, and when it is FedAvg."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.halves import next_from, next_round
from fedsub.testing.one_number import BIAS, WEIGHT, Parabola, filled, one_number, samples, weights
from fedsub.testing.refusals import refused
from fedsub.testing.runs import Run, RunMethod, assert_equal, people
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.client.methods.caafp import CAAFPLearner
from fedsub_papers.methods.caafp import CAAFPHyperparameters, adjustments, divides_in
from fedsub_papers.strategies.methods.caafp import CAAFPServer
from tests.methods.test_groups import two_types

PHASES: dict[str, Any] = {"cluster_round": 2, "dense_rounds": 1, "k_selection": "fixed:2"}


def masks(run: Run, round: int) -> dict[str, torch.Tensor]:
    """Return the masks after a round, [groups, ...]."""
    state = run.states[round - 1]
    return {n.removeprefix("mask."): t for n, t in state.items() if n.startswith("mask.")}


def zeros(mask: torch.Tensor) -> list[int]:
    """Return how many weights of each group are masked out."""
    return [int((~one).sum()) for one in mask]


@pytest.mark.parametrize("layers", [1, -1])
@pytest.mark.parametrize("schedule", ["iterative", "one-shot"])
def test_the_last_layer_alone_is_pruned_or_whole(
    schedule: str, layers: int, run_method: RunMethod
) -> None:
    hyper = PHASES | {"schedule": schedule, "sparsity": "fixed:0.5", "pruned_layers": layers}
    masked = masks(run_method("caafp", two_types(), hyper=hyper, rounds=4), 4)
    *others, last = masked.values()
    pruned, whole = ([last], others) if layers > 0 else (others, [last])
    assert pruned and all(zeros(mask) == [mask[0].numel() // 2] * 2 for mask in pruned)
    assert whole and all(mask.all() for mask in whole)


@pytest.mark.parametrize("layers", [9, -9])
def test_as_many_layers_as_the_model_has_are_refused(layers: int, run_method: RunMethod) -> None:
    with refused(ConfigError, got=9, expected=2):
        run_method("caafp", hyper={"pruned_layers": layers}, rounds=2)


def test_with_adam_magnitude_prunes_what_leads_to_the_classes_that_a_group_has(
    run_method: RunMethod,
) -> None:
    hyper = {"schedule": "one-shot", "k_selection": "fixed:1", "sparsity": "fixed:0.5"}
    own = people(((0, 1),) * 4)
    run = run_method("caafp", own, hyper=hyper, rounds=30, lr=0.01, optimiser="adam")
    kept = [*masks(run, 30).values()][-1][0].sum(1)
    assert kept[2] > 1.2 * kept[:2].max(), kept


@pytest.mark.parametrize(
    ("hyper", "rounds", "divided", "moved"),
    [
        ({}, 50, 15, [31, 36, 41, 46]),
        ({"cluster_round": 10, "dense_rounds": 10}, 50, 10, [21, 26, 31, 36, 41, 46]),
        ({"schedule": "one-shot"}, 40, 10, [40]),
        ({}, 3, 1, [2]),
        ({}, 2, 1, [2]),
        ({}, 1, 1, [1]),
    ],
)
def test_phases(hyper: dict[str, Any], rounds: int, divided: int, moved: list[int]) -> None:
    own = CAAFPHyperparameters(**hyper)
    assert divides_in(own, rounds) == divided and list(adjustments(own, rounds)) == moved


@pytest.mark.parametrize("schedule", ["iterative", "one-shot"])
def test_one_group_whole_masks_and_no_tuning_is_fedavg(
    schedule: str, run_method: RunMethod
) -> None:
    hyper = {
        "schedule": schedule,
        "k_selection": "fixed:1",
        "sparsity": "fixed:0.0",
        "finetune_epochs": 0,
    }
    caafp, fedavg = run_method("caafp", hyper=hyper, rounds=4), run_method("fedavg", rounds=4)
    for ours, theirs in zip(caafp.states, fedavg.states, strict=True):
        assert_equal({name: ours[f"model.{name}"][0] for name in theirs}, theirs)
    for client, model in fedavg.models().items():
        assert_equal(caafp.models()[client], model)


def test_every_group_has_its_own_mask_and_it_holds(run_method: RunMethod) -> None:
    hyper = PHASES | {"adjust_every": 1, "sparsity": "fixed:0.7"}
    run = run_method("caafp", two_types(), hyper=hyper, rounds=6)
    assert all(mask.all() for round in (1, 2, 3) for mask in masks(run, round).values())
    for number in (4, 5, 6):
        for name, mask in masks(run, number).items():
            assert zeros(mask) == [round(0.7 * mask[0].numel())] * 2, (number, name)
            assert not torch.equal(*mask), "both groups keep the same weights"
            assert not run.states[number - 1][f"model.{name}"][~mask].any()
    for name, mask in masks(run, 5).items():
        assert not torch.equal(mask, masks(run, 4)[name]), "nothing grew"
    models, held = run.models(), masks(run, 6)
    for client, model in models.items():
        group = int(run.metric("group")[6, client])
        assert all(not model[name][~mask[group]].any() for name, mask in held.items())
        assert any(not torch.equal(model[n], run.states[-1][f"model.{n}"][group]) for n in model)
    assert run.metric("sparsity_weights")[6, ""] == pytest.approx(0.7, abs=1e-3)


def test_so_many_of_each_group_are_drawn_once_there_are_groups(run_method: RunMethod) -> None:
    hyper = PHASES | {"schedule": "one-shot", "members_per_round": 1}
    run = run_method("caafp", two_types(), hyper=hyper, rounds=12, clients_per_round=4)
    drawn = [set(uploads) for uploads in run.uploads]
    assert len(drawn[0]) == 4 and len(drawn[1]) == 6  # everybody is in the round that divides
    types = {"p1", "p2", "p3"}, {"p4", "p5", "p6"}
    assert all(len(one & own) == 1 for one in drawn[2:] for own in types)
    assert set.union(*drawn[2:]) == types[0] | types[1], "somebody is never drawn"


def test_one_shot_prunes_the_lowest_scores_of_every_layer_at_the_end(
    run_method: RunMethod,
) -> None:
    hyper = {"schedule": "one-shot", "k_selection": "fixed:2", "sparsity": "fixed:0.55"}
    run = run_method("caafp", two_types(), hyper=hyper, rounds=4)
    assert all(mask.all() for mask in masks(run, 3).values())
    for name, mask in masks(run, 4).items():
        assert zeros(mask) == [int(0.55 * mask[0].numel())] * 2, name
    # Score is magnitude here, but for members' likeness, which hardly moves it.
    dense = run.states[-1]["model.linear2.weight"][0]
    assert not [n for n in run.uploads[-1]["p1"].tensors if n.startswith("gradient.")]
    assert dense.count_nonzero() == masks(run, 4)["linear2.weight"][0].sum()


def test_sparsity_follows_label_counts_where_people_agreed(run_method: RunMethod) -> None:
    """Groups of one label have no entropy: 0.7 - 0.1 * 2 / 10; without counts it is the largest."""
    federation = people(((0,), (0,), (1,), (1,)))
    common = PHASES | {"adjust_every": 1, "finetune_epochs": 0}
    told, silent = (
        run_method("caafp", federation, hyper=common | {"label_counts": agreed}, rounds=8)
        for agreed in (True, False)
    )
    sent = [any("labels" in u.tensors for u in round.values()) for round in told.uploads]
    assert sent == [False, True, *[False] * 6]
    assert not any("labels" in u.tensors for round in silent.uploads for u in round.values())
    for run, spread in ((told, 0.0), (silent, 1.0)):
        sizes = torch.bincount(run.states[-1]["groups"], minlength=2).tolist()
        for name, mask in masks(run, 8).items():
            shares = [max(0.7 - 0.2 * spread - 0.01 * size, 0.5) for size in sizes]
            # Each of the five moves rounds.
            wanted = [share * mask[0].numel() for share in shares]
            assert zeros(mask) == pytest.approx(wanted, abs=5), name


def test_gradients_are_those_of_the_model_received() -> None:
    """The gradient of p**2 / 2 at 3 is 3, though training goes on to 2.7."""
    settings = TrainingSettings(lr=0.1, momentum=0.0)
    learner = one_number("caafp", Parabola(), settings, cluster_round=1, dense_rounds=1)
    for round, sent in ((2, set()), (3, {f"gradient.{WEIGHT}"})):
        state = filled(learner, 1, model=3.0)
        state, (upload,), _ = learner.fit(state, [Bundle()], samples(3), Turn(round, 3, 0))
        assert weights(learner, state, "model") == [pytest.approx(2.7)]
        assert set(upload.tensors) - {WEIGHT, BIAS} == sent
    assert upload.floats(f"gradient.{WEIGHT}").item() == 3.0


def test_a_pull_leads_to_each_persons_drawn_model() -> None:
    """The gradient of p**2 / 2 + (p - a)**2 / 2 at 3 is 3 + 3 - a; each person has its own a."""
    settings = TrainingSettings(lr=0.1, momentum=0.0)
    learner = one_number("caafp", Parabola(), settings, drawn_pull=1.0)
    data, turn = samples(3, 3), Turn(1, 4, 0)
    state, _, _ = learner.fit(filled(learner, 2, model=3.0), [Bundle(), Bundle()], data, turn)
    assert isinstance(learner, CAAFPLearner)
    drawn = learner.drawn(data, turn)[WEIGHT].flatten().tolist()
    assert weights(learner, state, "model") == pytest.approx([3 - 0.1 * (6 - a) for a in drawn])
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": Floats(np.array([1, 0, 0], np.float32))}, "labels.*counts that sum to"),
        ({"labels": None}, "beside the model"),
        ({"gradient.linear1.weight": Floats(np.zeros((128, 4), np.float32))}, "beside the model"),
        ({"linear1.weight": Floats(np.zeros((128, 4), np.float32))}, "masks of"),
    ],
)
def test_what_does_not_fit_the_round_is_refused(
    change: dict[str, Any], said: str, run_method: RunMethod
) -> None:
    run = run_method("caafp", hyper=PHASES | {"label_counts": True}, rounds=4, until=2)
    strategy, upload = run.strategy, run.uploads[1]["p1"]
    assert isinstance(strategy.half, CAAFPServer)
    strategy.finished_rounds, before = 1, run.states[0]
    strategy.half.check(before, next_round(strategy), next_from(strategy, "p1"), upload)
    tensors = {n: p for n, p in (dict(upload.tensors) | change).items() if p is not None}
    with pytest.raises(MessageRefused, match=f"client 'p1'.*round 2.*{said}"):
        strategy.half.check(
            before,
            next_round(strategy),
            next_from(strategy, "p1"),
            Bundle(upload.examples, tensors=tensors),
        )
