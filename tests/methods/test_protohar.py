"""ProtoHAR: numbers by hand, and when it is FedRep."""

from collections.abc import Sequence

import pytest
import torch

from fedsub.testing.one_number import TWO, Slope, filled, one_number, samples
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_core.data.stacks import Stack
from fedsub_core.models.kinds import mlp
from fedsub_core.training import Batches, Met, Passes, TrainingSettings, Turn, each_batch
from fedsub_core.wire.bundles import Bundle

TURN = Turn(1, 2, 0)
PLAIN = TrainingSettings(lr=0.1, momentum=0.0)


@pytest.mark.parametrize("hyper", [{}, {"head_epochs": 3}, {"head_layers": 2}])
def test_without_a_pull_it_is_fedrep(hyper: dict[str, int], run_method: RunMethod) -> None:
    run = run_method("protohar", hyper={"lam": 0.0, **hyper})
    fedrep = run_method("fedrep", hyper=hyper)
    for ours, theirs in zip(run.states, fedrep.states, strict=True):
        assert_equal({name: ours[name] for name in theirs}, theirs)
    for client, model in fedrep.models().items():
        assert_equal(run.models()[client], model)
    assert set(run.states[-1]) - set(fedrep.states[-1]) == {"prototypes", "held"}


def test_the_pull_is_on_the_body_alone(run_method: RunMethod) -> None:
    pulled, fedrep = run_method("protohar"), run_method("fedrep")
    assert not torch.equal(pulled.states[-1]["linear1.weight"], fedrep.states[-1]["linear1.weight"])
    # The last head trained before its round's pull, on the body of the round before.
    second, free = (run_method(name, rounds=2) for name in ("protohar", "fedrep"))
    heads = [
        torch.stack([run.client_state(c)["model.linear3.weight"] for c in people().clients])
        for run in (second, free)
    ]
    torch.testing.assert_close(heads[0], heads[1], atol=1e-5, rtol=1e-4)


def held(*h: float) -> Stack:
    """Return one person's samples of one class, whose embeddings are these numbers."""
    x = torch.tensor(h).view(1, -1, 1)
    return Stack(("anna",), x, torch.zeros(1, len(h), dtype=torch.int64), (len(h),))


@pytest.mark.parametrize(
    ("variant", "h", "expected"),
    [
        ("paper", (8.0, 0.0, 0.0, 0.0), 2.0),
        ("paper", (8.0, 8.0, 8.0, 8.0), 8.0),
        ("repo", (8.0, 8.0, 8.0, 8.0), 2.0),
    ],
)
def test_a_prototype_by_hand(variant: str, h: Sequence[float], expected: float) -> None:
    learner = one_number("protohar", Slope(0.0), PLAIN, TWO, variant=variant, lam=0.0)
    state = filled(learner, 1, model=1.0)
    _, (upload,), _ = learner.fit(state, [Bundle()], held(*h), TURN)
    assert upload.floats("prototypes").tolist() == [[expected]]


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_public_codes_prototype_is_the_first_sample_over_all(epochs: int) -> None:
    """The first of the class in the order in which the body's phase really takes them."""
    data = Stack(
        ("anna", "ben"),
        torch.arange(1.0, 19.0).view(2, 9, 1),
        torch.arange(18).view(2, 9) % 3,
        (9, 7),
    )
    order: list[list[tuple[int, float]]] = [[], []]

    def note(rows: dict[str, torch.Tensor], batches: Batches) -> Met:
        (batch,) = batches
        for i in range(len(batch.y)):
            order[i].append((int(batch.y[i, 0]), float(batch.x[i, 0, 0])))
        return Met(batch.weight, batch.weight)

    each_batch({"p": torch.zeros(2)}, data, TURN, note, Passes(1, 1))
    settings = TrainingSettings(lr=0.1, momentum=0.0, epochs=epochs, batch_size=4)
    model = mlp(1, 3, (1,))
    learner = one_number("protohar", Slope(0.0), settings, model, variant="repo", lam=0.0)
    _, uploads, _ = learner.fit(filled(learner, 2, model=1.0), [Bundle()] * 2, data, TURN)
    for i, upload in enumerate(uploads):
        for y, rho in enumerate(upload.floats("prototypes")[:, 0].tolist()):
            of_class = [h for label, h in order[i] if label == y]
            assert rho == pytest.approx(of_class[0] / len(of_class))


def test_prototypes_weigh_alike_and_bodies_by_samples(run_method: RunMethod) -> None:
    run = run_method("protohar", rounds=1, robust="none")
    sizes = {client: upload.examples for client, upload in run.uploads[0].items()}
    body = sum(
        n * torch.from_numpy(run.uploads[0][c].floats("linear1.weight").copy())
        for c, n in sizes.items()
    ) / sum(sizes.values())
    torch.testing.assert_close(run.states[0]["linear1.weight"], body, atol=1e-6, rtol=0)
    rho = torch.stack(
        [torch.from_numpy(u.floats("prototypes").copy()) for u in run.uploads[0].values()]
    ).mean(0)
    torch.testing.assert_close(run.states[0]["prototypes"], rho, atol=1e-6, rtol=0)


def test_head_first_then_body_at_their_own_rates() -> None:
    learner = one_number("protohar", Slope(2.0), PLAIN, TWO, head_epochs=3, head_lr_factor=10.0)
    state, (upload,), _ = learner.fit(
        filled(learner, 1, model=0.0), [Bundle()], samples(4), Turn(1, 2, 0)
    )
    # The head: 3 epochs of one batch at rate 1; the body: one at rate 0.1.
    assert state["model.linear2.weight"].item() == pytest.approx(-6.0)
    assert upload.floats("linear1.weight").item() == pytest.approx(-0.2)
    assert set(upload.tensors) == {"linear1.weight", "linear1.bias", "prototypes"}
