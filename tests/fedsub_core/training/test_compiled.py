"""Training by compiled kernels is PyTorch's, for all that they know; the rest is left to it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_client.methods.fedsub.relevance import unit_relevance
from fedsub_core.data.stacks import Stack, select_params
from fedsub_core.errors import ConfigError
from fedsub_core.kernels import library
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.models.layers import Conv, Flatten, Linear, Pool, ReLU
from fedsub_core.models.model import Params
from fedsub_core.training import (
    CE,
    Objective,
    Pull,
    Term,
    TrainingSettings,
    Turn,
    train,
)
from fedsub_core.training.gradients import Gradient

from .every_objective import objectives

pytestmark = pytest.mark.usefixtures("kernels")
MakeStack = Callable[..., Stack]
TURN = Turn(4, 9, seed=3)
COUNTS = (5, 100, 33, 64)
#: Of every length of what is left over of vectors, tiles and batches.
MODELS = {
    "mlp": mlp(17, 5, (33, 19)),
    "cnn": Chain(
        (
            Conv("linear1", 7, 2, (4,), (3,), (2,)),
            ReLU(),
            Pool("max", (3,)),
            Conv("linear2", 9, 7, (3,), (1,), (1,)),
            ReLU(),
            Pool("adaptive-avg", (3,)),
            Flatten(),
            Linear("linear3", 5, 27),
        ),
        (2, 80),
    ),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Chain:
    """A fully connected model, and one of convolutions."""
    return MODELS[request.param]


def both(model: Chain, data: Stack, settings: TrainingSettings, **options: Any) -> Params:
    """Train by the kernels and by PyTorch, hold them equal, and return what the kernels give."""
    params = model.init(len(COUNTS), seed=0)
    found = train(model, params, data, TURN, settings, **options)
    with library.switched_off():
        expected = train(model, params, data, TURN, settings, **options)
    assert found.params.keys() == expected.params.keys()
    for name, tensor in expected.params.items():
        torch.testing.assert_close(found.params[name], tensor, atol=2e-6, rtol=1e-4)
    torch.testing.assert_close(found.loss, expected.loss, atol=1e-5, rtol=1e-5)
    return found.params


@pytest.mark.parametrize("name", list(objectives({})))
@pytest.mark.parametrize("layers", ["all", "head", "body", "middle"])
def test_every_objective_is_pytorchs(
    name: str, layers: str, model: Chain, random_stack: MakeStack
) -> None:
    only = {"all": None, "head": model.head(), "body": model.body(), "middle": ["linear2"]}[layers]
    start = model.init(len(COUNTS), seed=0)
    objective = objectives(start)[name]
    trained = both(
        model, random_stack(model), TrainingSettings(lr=0.02), objective=objective, only=only
    )
    moved = {name for name, tensor in trained.items() if not torch.equal(tensor, start[name])}
    assert moved == set(model.parameter_shapes if only is None else model.parameters_of(set(only)))


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (TrainingSettings(momentum=0), {}),
        (TrainingSettings(weight_decay=0.1), {}),
        (TrainingSettings(lr=0.04, lr_decay=0.5), {}),
        (TrainingSettings(epochs=3, batch_size=7), {"phase": "another"}),
        (TrainingSettings(batch_size=50), {"steps": 3}),
        (TrainingSettings(batch_size=1000), {"steps": 2}),
        (TrainingSettings(batch_size=1), {}),
        (TrainingSettings(clip_norm=0.2), {}),
    ],
    ids=str,
)
def test_every_setting_is_pytorchs(
    settings: TrainingSettings, options: dict[str, Any], model: Chain, random_stack: MakeStack
) -> None:
    both(model, random_stack(model), settings, **options)


def test_a_client_trains_alike_alone_and_in_any_thread(
    model: Chain, random_stack: MakeStack
) -> None:
    data, params = random_stack(model), model.init(len(COUNTS), seed=0)
    settings = TrainingSettings(epochs=2)
    whole = train(model, params, data, TURN, settings)

    def alone(i: int) -> None:
        one, _ = train(model, select_params(params, [i]), data.select([i]), TURN, settings)
        for name, tensor in one.items():
            assert torch.equal(tensor[0], whole.params[name][i])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(alone, [*range(len(COUNTS))] * 5))


def test_instruction_sets_give_the_same_bits(
    model: Chain, random_stack: MakeStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for variant in ("avx512", "avx2"):
        monkeypatch.setenv(library.VARIABLE, variant)
        try:
            library.kernels()
        except ConfigError:
            continue
        params = model.init(len(COUNTS), seed=0)
        objective = objectives(params)["all"]
        found.append(
            train(model, params, random_stack(model), TURN, TrainingSettings(), objective=objective)
        )
    for other in found[1:]:
        assert all(torch.equal(t, other.params[name]) for name, t in found[0].params.items())
        assert torch.equal(found[0].loss, other.loss)


def test_a_head_is_trained_on_what_lies_below(model: Chain, random_stack: MakeStack) -> None:
    """In many epochs the layers below are passed once."""
    both(model, random_stack(model), TrainingSettings(), only=["linear3"], epochs=3)
    both(model, random_stack(model), TrainingSettings(), only=["linear2"], epochs=2)


def test_who_has_no_samples_trains_nothing(random_stack: MakeStack) -> None:
    model = MODELS["mlp"]
    data, start = random_stack(model), model.init(len(COUNTS), seed=0)
    none = replace(data, counts=(0, *data.counts[1:]))
    for steps in (None, 2):
        trained, loss = train(model, start, none, TURN, TrainingSettings(), steps=steps)
        assert loss[0].isnan() and loss[1:].isfinite().all()
        assert all(torch.equal(trained[name][0], t[0]) for name, t in start.items())


def test_nobody_has_samples(random_stack: MakeStack) -> None:
    """A device whose part of the data is empty."""
    model = MODELS["cnn"]
    data, start = random_stack(model, (1, 1)), model.init(2, seed=0)
    none = replace(data, counts=(0, 0))
    trained, loss = train(model, start, none, TURN, TrainingSettings())
    assert loss.isnan().all()
    assert all(torch.equal(trained[name], t) for name, t in start.items())
    with torch.no_grad():
        assert model.forward(start, data.x[:, :0]).shape == (2, 0, model.classes)
    related, logits = unit_relevance(model, start, none, "lrp-a2b1", "logits")
    assert not any(t.any() for t in related.values()) and not logits.any()


def test_what_does_not_fit_is_refused(random_stack: MakeStack) -> None:
    model, settings = MODELS["mlp"], TrainingSettings()
    data, params = random_stack(model), model.init(len(COUNTS), seed=0)
    with refused(ValueError, expected="counts, orders and classes"):
        train(model, params, replace(data, y=data.y + 5), TURN, settings)
    with refused(ValueError, got="[4, 100, 9]", expected=["1700 numbers", 4]):
        train(model, params, replace(data, x=data.x[..., :9]), TURN, settings)
    with refused(ValueError, got=["torch.float64", "cpu"], expected="torch.float32"):
        train(model, {n: t.double() for n, t in params.items()}, data, TURN, settings)
    with pytest.raises(RuntimeError, match=r"dtype|type"):
        train(model, params, replace(data, x=data.x.double()), TURN, settings)


def test_steps_one_by_one_are_those_of_an_epoch(model: Chain, random_stack: MakeStack) -> None:
    """What methods with steps of their own do is what others do whole."""
    data, params = random_stack(model), model.init(len(COUNTS), seed=0)
    settings = TrainingSettings(lr=0.05)

    class OneByOne(Gradient):
        """A gradient of its own, as far as `train` knows."""

    whole = train(model, params, data, TURN, settings)
    steps = train(model, params, data, TURN, settings, gradient=OneByOne(model, CE))
    for name, tensor in whole.params.items():
        torch.testing.assert_close(steps.params[name], tensor, atol=1e-6, rtol=1e-5)


def test_a_model_that_diverged_says_so(model: Chain, random_stack: MakeStack) -> None:
    data = random_stack(model)
    found = train(model, model.init(len(COUNTS), seed=0), data, TURN, TrainingSettings(lr=1e20))
    assert not found.params["linear3.weight"].isfinite().all()
    assert found.loss.isnan().any()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("image", "the kernels do not know all layers"),
        ("two pulls", "the objective has more than one Pull"),
        ("adam", "the optimiser is adam"),
        ("clipped", "gradients are clipped"),
        ("doubles", "numbers are float64"),
    ],
)
def test_the_rest_is_pytorchs(what: str, why: str, random_stack: MakeStack) -> None:
    image = Chain((Conv("linear1", 5, 2, (3, 2), (1, 1), (0, 0)), Flatten()), (2, 3, 2))
    model = image if what == "image" else MODELS["mlp"]
    params, data, settings = model.init(len(COUNTS), 0), random_stack(model), TrainingSettings()
    objective: Term | Objective = CE
    if what == "two pulls":
        objective = CE + Pull(params, 0.1) + Pull(params, 0.2)
    if what == "adam":
        settings = replace(settings, optimiser="adam")
    if what == "clipped":
        settings = replace(settings, clip_norm=1.0)
    if what == "doubles":
        data = replace(data, x=data.x.double())
        params = {name: tensor.double() for name, tensor in params.items()}
    answer = Gradient(model, objective).trained_by(data.x, settings)
    assert str(answer) == f"pytorch ({why})" and answer.kernels is None
    before = {name: tensor.clone() for name, tensor in params.items()}
    train(model, params, data, TURN, settings, objective=objective)
    assert all(torch.equal(before[name], params[name]) for name in params)
