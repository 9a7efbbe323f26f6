"""FedSub's device half as a whole: what it keeps, uploads and reports."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_client.methods.fedsub.noise import RELEASES, SECRET, noise_ledger, spent_epsilon
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import PROTOTYPES, FedSubHyperparameters, sends
from fedsub_core.models.kinds import mlp
from fedsub_core.training import TrainingSettings
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, kinds

MODEL = mlp(2, 3, (32, 16))
NOISE: dict[str, Any] = {
    "prototype_noise": "gaussian",
    "prototype_clip": 1.0,
    "prototype_sigma": 4.0,
}


def learner(**hyper: Any) -> FedSubLearner:
    chosen = FedSubHyperparameters(**hyper)
    return FedSubLearner(MODEL, TrainingSettings(), chosen, sends(MODEL, chosen))


def data(shift: float = 0.0) -> Stack:
    """Anna has all three classes, ben the first two."""
    rng = np.random.default_rng(3)
    ys = [np.arange(30) % 3, np.arange(20) % 2]
    xs = [rng.normal(y[:, None] + shift, 0.5, (len(y), 2)).astype(np.float32) for y in ys]
    return stack(["anna", "ben"], xs, ys)


def turn(round: int) -> Turn:
    return Turn(round, 4, 0)


NOTHING = [Bundle(), Bundle()]


@pytest.mark.parametrize("depth", [0, 1])
def test_an_upload_is_what_the_card_declares(depth: int) -> None:
    one = learner(depth=depth)
    _, uploads, reports = one.fit(one.init(2, 0), NOTHING, data(), turn(1))
    assert [upload.examples for upload in uploads] == [30, 20]
    assert [set(report) for report in reports] == [{"training_loss"}] * 2
    for upload, held in zip(uploads, ([True] * 3, [True, True, False]), strict=True):
        assert upload.tensors.keys() == one.sends.keys()
        assert all(d.kind in kinds(upload.tensors[n]) for n, d in one.sends.items())
        assert upload.bits("classes").tolist() == held
        assert upload.floats("scores").tolist() == [float(c) for c in held]
        assert upload.part(PROTOTYPES).at.held((3,)).tolist() == held
        for layer in MODEL.affine[: depth or None]:
            masks = upload.bits(f"{layer.name}.masks")
            assert masks.shape == (3, layer.units) and masks.any()
            assert not masks[~np.array(held)].any(), "a class that is not held selects nothing"
            sent = upload.part(layer.name)
            assert np.array_equal(masks.any(0), sent.at.held((layer.units,)))
            assert sent.values.shape == (masks.any(0).sum(), layer.fan_in + 1)


def test_only_the_units_that_a_download_names_are_replaced() -> None:
    one = learner()
    state = one.init(2, 0)
    units = np.array([False, True, False])
    rows = Floats.rows(units, np.full((1, 17), 0.25, np.float32))
    after = one.receive(state, [Bundle(tensors={"linear3": rows}), Bundle()])
    assert (after["model.linear3.weight"][0, 1] == 0.25).all()
    assert after["model.linear3.bias"][0].tolist() == [
        state["model.linear3.bias"][0, 0],
        0.25,
        state["model.linear3.bias"][0, 2],
    ]
    for name, tensor in state.items():
        kept = [0, 2] if name.startswith("model.linear3") else slice(None)
        assert torch.equal(after[name][0, kept], tensor[0, kept])
        assert torch.equal(after[name][1], tensor[1])


def test_prototypes_that_the_server_holds_stay_at_home() -> None:
    one, held = learner(), data()
    state, first, _ = one.fit(one.init(2, 0), NOTHING, held, turn(1))
    assert all(upload.version > 0 and PROTOTYPES in upload.tensors for upload in first)
    known = [Bundle(version=first[0].version), Bundle(version=first[0].version)]
    state, second, _ = one.fit(state, known, held, turn(2))
    assert [upload.version for upload in second] == [upload.version for upload in first]
    # What the server holds of ben is of other data than ben's.
    assert [PROTOTYPES in upload.tensors for upload in second] == [False, True]
    _, third, _ = one.fit(state, known, data(0.5), turn(3))
    assert PROTOTYPES in third[0].tensors and third[0].version != first[0].version


def test_prototypes_of_an_embedding_change_with_the_model_and_are_always_sent() -> None:
    one, held = learner(prototype="embedding"), data()
    state, first, _ = one.fit(one.init(2, 0), NOTHING, held, turn(1))
    _, second, _ = one.fit(state, NOTHING, held, turn(2))
    for upload in (*first, *second):
        assert upload.version == 0 and upload.floats(PROTOTYPES).shape[1] == 16
    assert not np.array_equal(first[0].floats(PROTOTYPES), second[0].floats(PROTOTYPES))


def test_it_releases_each_version_once_and_reports_what_it_spent() -> None:
    one, first = learner(**NOISE), data()
    state, uploads, reports = one.fit(one.init(2, 0), NOTHING, first, turn(1))
    assert one.noise is not None
    state, again, repeated = one.fit(state, NOTHING, first, turn(2))
    for upload, same in zip(uploads, again, strict=True):
        assert np.array_equal(upload.floats(PROTOTYPES), same.floats(PROTOTYPES)), "one release"
    epsilon = reports[0]["epsilon"]
    assert epsilon == repeated[0]["epsilon"] == spent_epsilon(one.noise, 1, 1e-5) > 0
    state, _, reports = one.fit(state, NOTHING, data(1.0), turn(3))
    assert reports[0]["epsilon"] == spent_epsilon(one.noise, 2, 1e-5) > epsilon
    assert state[RELEASES].tolist() == [2, 2]


def test_a_secret_changes_the_noise_and_the_name_of_the_data() -> None:
    one, held = learner(**NOISE), data()
    start = one.init(2, 0)
    secret = start | {SECRET: torch.tensor([77, 0])}
    _, plain, _ = one.fit(start, NOTHING, held, turn(1))
    _, hidden, _ = one.fit(secret, NOTHING, held, turn(1))
    assert hidden[0].version != plain[0].version, "or the server could test guesses of the data"
    assert not np.array_equal(hidden[0].floats(PROTOTYPES), plain[0].floats(PROTOTYPES))
    assert list(one.own_secrets()) == [SECRET] and not learner().own_secrets()


def test_its_state_is_one_shared_model_and_the_ledger_of_its_noise() -> None:
    plain = learner().init(3, 5)
    assert list(plain) == [f"model.{name}" for name in MODEL.parameter_shapes]
    assert all((tensor == tensor[0]).all() for tensor in plain.values())
    other = learner().init(3, 6)
    assert not torch.equal(plain["model.linear1.weight"], other["model.linear1.weight"])
    assert learner(**NOISE).init(3, 5).keys() == plain.keys() | noise_ledger(3).keys()


def test_hyperparameters_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"depth: got 4, expected at most 3"):
        learner(depth=4)
    for half in ({"prototype_clip": 1.0}, {"prototype_sigma": 1.0}):
        with pytest.raises(ConfigError, match="got 'none' beside a clip or sigma"):
            learner(**half)
    with pytest.raises(ConfigError, match="prototype-sigma: got 0"):
        learner(prototype_noise="laplace", prototype_clip=1.0)
