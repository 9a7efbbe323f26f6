"""What device halves are made of: state by models' names, adopting, uploading, reporting."""

import numpy as np
import torch

from fedsub_client.downloads import adopted
from fedsub_client.learner import Learner, reported
from fedsub_client.methods.ditto import DittoLearner
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_client.new_cohort import make_learner
from fedsub_core.data.stacks import stack
from fedsub_core.methods.table import method
from fedsub_core.models.kinds import mlp
from fedsub_core.training import TrainingSettings
from fedsub_core.wire.bundles import Bundle, Floats

MODEL = mlp(2, 3, (4,))


def learner(name: str) -> Learner:
    card = method(name)
    hyper = card.hyperparameters()
    return make_learner(card, MODEL, TrainingSettings(), hyper)


def test_all_models_of_all_clients_start_from_one() -> None:
    one = learner("ditto")
    assert isinstance(one, DittoLearner)
    state = one.init(2, 7)
    models = [f"{m}.{p}" for m in ("global", "personal") for p in MODEL.parameter_shapes]
    assert list(state) == [*models, "met"] and state["met"].tolist() == [0, 0]
    assert "met" not in learner("fedavg").init(2, 7)
    for name in MODEL.parameter_shapes:
        start = state[f"global.{name}"]
        assert torch.equal(start, state[f"personal.{name}"])
        assert torch.equal(start[0], start[1]) and torch.equal(start, MODEL.init(2, 7)[name])
        start.add_(1)  # each is a tensor of its own
        assert not torch.equal(start, state[f"personal.{name}"])
    assert one.personal(state).keys() == MODEL.parameter_shapes.keys()
    assert torch.equal(one.personal(state)["linear1.bias"], state["personal.linear1.bias"])


def test_what_is_received_goes_into_the_first_model() -> None:
    one = learner("ditto")
    # The battery holds what a first download does.
    state = one.receive(one.init(2, 0), [Bundle(), Bundle()])
    ones = Bundle(tensors={"linear1.bias": Floats(np.ones(4, np.float32))})
    after = one.receive(state, [Bundle(), ones])
    changed = {name for name in state if not torch.equal(after[name], state[name])}
    assert changed == {"global.linear1.bias"}
    assert torch.equal(after["global.linear1.bias"][0], state["global.linear1.bias"][0])
    assert (after["global.linear1.bias"][1] == 1).all()


def test_adopting_copies_what_is_named_and_nothing_else() -> None:
    params = MODEL.init(2, 0)
    before = {name: tensor.clone() for name, tensor in params.items()}
    weight = np.full((4, 2), 0.5, np.float32)
    taken = adopted(params, [Bundle(tensors={"linear1.weight": Floats(weight)}), Bundle()])
    assert all(taken[n] is params[n] for n in params if n != "linear1.weight")
    assert (taken["linear1.weight"][0] == 0.5).all()
    weight[:] = 9  # nor does it hold on to the message
    assert (taken["linear1.weight"][0] == 0.5).all()
    assert all(torch.equal(params[name], before[name]) for name in params)


def test_an_upload_holds_what_the_card_declares_of_each_client() -> None:
    one = learner("fedper")
    assert isinstance(one, FedAvgLearner)
    params = {name: tensor * torch.tensor([1.0, 2.0]).view(-1, *[1] * (tensor.dim() - 1))
              for name, tensor in MODEL.init(2, 0).items()}  # fmt: skip
    xs = [np.zeros((n, 2), np.float32) for n in (5, 3)]
    uploads = one.uploads(params, stack(["a", "b"], xs, [np.zeros(len(x), np.int64) for x in xs]))
    assert [upload.examples for upload in uploads] == [5, 3]
    for i, upload in enumerate(uploads):
        assert list(upload.tensors) == ["linear1.weight", "linear1.bias"], "the body"
        for name in upload.tensors:
            assert np.array_equal(upload.floats(name), params[name][i].numpy())


def test_prediction_is_the_personal_models() -> None:
    one = learner("ditto")
    state = one.init(2, 0)
    state = state | {n: tensor * 2 for n, tensor in state.items() if n.startswith("personal.")}
    x = torch.randn(2, 6, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = MODEL.forward({n: 2 * t for n, t in MODEL.init(2, 0).items()}, x)
    assert torch.equal(one.predict(state, x), expected)


def test_reports_are_one_a_client() -> None:
    found = reported(training_loss=torch.tensor([0.5, 0.25]), alpha=torch.tensor([0.0, 1.0]))
    assert found == [{"training_loss": 0.5, "alpha": 0.0}, {"training_loss": 0.25, "alpha": 1.0}]
