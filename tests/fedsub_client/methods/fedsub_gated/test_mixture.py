"""A mixture's numbers by hand, and in a loop over samples."""

import pytest
import torch
from torch import Tensor

from fedsub_client.methods.fedsub_gated.mixture import Common, Mixture
from fedsub_core.models.kinds import mlp
from fedsub_core.seeds import generator

MODEL = mlp(3, 4, hidden=(5, 2))
EXPERTS = ("local", "fused", "head")
MIXTURE = Mixture(MODEL, EXPERTS)


def gate(**values: object) -> dict[str, Tensor]:
    """One client who holds classes 0 and 1 of four; class means at right angles."""
    given = {
        "weights": [0.7, 0.2, 0.1],
        "temperature": [1, 1, 1],
        "held": [1, 1, 0, 0],
        "open": [0, 0],
        "means": [[1, 0], [0, 1], [0, 0], [0, 0]],
        "spread": [0.25, 0.25],
    } | values
    names = {"means": "nearest.means", "spread": "nearest.spread"}
    return {
        names.get(n, f"gate.{n}"): torch.tensor([v], dtype=torch.float32) for n, v in given.items()
    }


def test_a_mixture_is_the_weighted_mean() -> None:
    each = torch.tensor([[[[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]]])
    common = Common(each[:, :, 1], torch.tensor([[[1.0, 0.0]]]))
    found = MIXTURE.mixed(gate(), common, each).exp()
    torch.testing.assert_close(found, torch.tensor([[[0.7, 0.2, 0, 0.1]]]))


def drawn(mixture: Mixture, purpose: str) -> tuple[dict[str, Tensor], Tensor]:
    """Return models of one client and five samples."""
    stream = generator(0, "", 0, purpose)
    params = {n: torch.randn(1, *s, generator=stream) for n, s in mixture.tensor_shapes.items()}
    return params, torch.randn(1, 5, *MODEL.input_shape, generator=stream)


def test_an_expert_that_is_too_sure_is_softened_before_it_is_mixed() -> None:
    each = torch.tensor([[[[0.8, 0.2, 0, 0], [0.25] * 4, [0, 0.1, 0.9, 0]]]])
    common = Common(each[:, :, 1], torch.tensor([[[1.0, 0.0]]]))
    params = gate(weights=[0.5, 0, 0.5], temperature=[2, 1, 0.5])
    found = MIXTURE.mixed(params, common, each).exp()
    # The roots of 0.8 and 0.2 are as 2 to 1, the squares of 0.1 and 0.9 as 1 to 81.
    expected = torch.tensor([[[1 / 3, 1 / 6 + 0.5 / 82, 0.5 * 81 / 82, 0]]])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)


def test_open_classes_get_the_root_of_the_odds_that_the_common_model_gives_them() -> None:
    each = torch.tensor([[[[0.2, 0.2, 0.6, 0.0]] * 3]])
    common = Common(torch.tensor([[[0.1, 0.1, 0.2, 0.6]]]), torch.tensor([[[1.0, 0.0]]]))
    found = MIXTURE.mixed(gate(open=[1, 0]), common, each).exp()
    # Odds of 4 to 1, whose root is 2: a quarter and three of these to the two that are lacked; the
    # person's share the rest, half each.
    torch.testing.assert_close(found, torch.tensor([[[1 / 6, 1 / 6, 1 / 6, 1 / 2]]]))
    found = MIXTURE.mixed(gate(open=[0.5, 0]), common, each).exp()
    torch.testing.assert_close(found, torch.tensor([[[1 / 4, 1 / 4, 1 / 8, 3 / 8]]]))


def test_the_farther_a_sample_is_from_ones_classes_the_more_it_counts() -> None:
    each = torch.tensor([[[[0.5, 0.5, 0, 0]] * 3] * 2])
    common = torch.tensor([[[0.25, 0.25, 0.5, 0.0]] * 2])
    # At a class mean, and opposite to it: the nearest mean is then that of the other, 1 and 1 away,
    # each with a variance of 0.25.
    embedding = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    found = MIXTURE.mixed(gate(open=[1, 1]), Common(common, embedding), each).exp()[0, :, 2]
    odds = (2 / 0.25 / 2 / 5) ** 1.5
    assert found.tolist() == [pytest.approx(0, abs=1e-6), pytest.approx(odds / (1 + odds))]


def test_a_dimension_in_which_ones_samples_vary_tells_less() -> None:
    params = gate(open=[1, 1], spread=[0.5, 0.01])
    common = Common(torch.full((1, 2, 4), 0.25), torch.tensor([[[0.8, 0.6], [0.6, 0.8]]]))
    each = torch.full((1, 2, 3, 4), 0.25)
    params |= {"nearest.means": torch.tensor([[[1.0, 0], [1, 0], [0, 0], [0, 0]]])}
    found = MIXTURE.mixed(params, common, each).exp()[0, :, 2:].sum(1)
    for sample, (a, b) in zip(found.tolist(), ((0.2, 0.6), (0.4, 0.8)), strict=True):
        far = (a**2 / 0.5 + b**2 / 0.01) / 2 / 5
        assert sample == pytest.approx(far**1.5 / (1 + far**1.5), rel=1e-4)


def test_who_holds_all_classes_or_is_sure_of_one_gets_probabilities() -> None:
    each = torch.full((1, 1, 3, 4), 0.25)
    for given in ([0.25] * 4, [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]):
        for held in ([1, 1, 1, 1], [1, 1, 0, 0]):
            for spread in ([0.25, 0.25], [0.0, 0.0]):
                params = gate(open=[1, 1], held=held, spread=spread)
                common = Common(torch.tensor([[given]]), torch.tensor([[[-1.0, 0.0]]]))
                found = MIXTURE.mixed(params, common, each).exp()
                assert found.isfinite().all() and found.sum() == pytest.approx(1, abs=1e-5)


def test_a_model_that_diverged_says_nothing_and_spoils_nothing() -> None:
    mixture = Mixture(MODEL, ("local", "fused"))
    params, x = drawn(mixture, "a model that diverged")
    params |= {"gate.weights": torch.tensor([[0.0, 1.0]]), "gate.held": torch.ones(1, 4)}
    params |= {"gate.open": torch.zeros(1, 2), "gate.temperature": torch.ones(1, 2)}
    # Probabilities: a mixture's logarithms end at that of 1e-12, which some models fall below.
    expected = MODEL.forward(mixture.expert(params, "fused"), x).softmax(2)
    broken = {n: t * torch.nan if n.startswith("local") else t for n, t in params.items()}
    torch.testing.assert_close(mixture.forward(broken, x).exp(), expected)
    broken |= {"gate.weights": torch.tensor([[1.0, 0.0]])}
    torch.testing.assert_close(mixture.forward(broken, x).exp(), torch.full((1, 5, 4), 0.25))


def test_a_common_model_that_diverged_leaves_the_person_its_own() -> None:
    """Also where it is asked for classes that the person lacks."""
    mixture = Mixture(MODEL, ("local", "fused", "head"))
    params, x = drawn(mixture, "a common model that diverged")
    params |= gate(open=[1, 1])
    params |= {"gate.weights": torch.tensor([[1.0, 0, 0]]), "gate.temperature": torch.ones(1, 3)}
    params = {n: t * torch.nan if n.startswith("fused") else t for n, t in params.items()}
    found = mixture.forward(params, x).exp()
    assert found.isfinite().all()
    own = MODEL.forward(mixture.expert(params, "local"), x)[:, :, :2].argmax(2)
    assert torch.equal(found[:, :, :2].argmax(2), own)


def test_a_whole_mixture_sample_by_sample() -> None:
    stream = torch.Generator().manual_seed(0)
    params = {
        name: torch.randn(2, *shape, generator=stream)
        for name, shape in MIXTURE.tensor_shapes.items()
        if name not in MIXTURE.gate_shapes
    }
    params |= {name: tensor.expand(2, *tensor.shape[1:]) for name, tensor in gate().items()}
    assert {n for n in params if n.startswith("head.")} == {
        "head.linear3.weight",
        "head.linear3.bias",
    }
    x = torch.randn(2, 6, 3, generator=stream)
    found = MIXTURE.forward(params, x)
    torch.testing.assert_close(found.exp().sum(2), torch.ones(2, 6))
    for c in range(2):
        own = {n: t[c] for n, t in params.items()}

        def chain(name: str, own: dict[str, Tensor], h: Tensor, first: int = 1) -> list[Tensor]:
            seen = [h]
            for i in range(first, 4):
                z = own[f"{name}.linear{i}.weight"] @ seen[-1] + own[f"{name}.linear{i}.bias"]
                seen.append(z.relu() if i < 3 else z.softmax(0))
            return seen

        for i in range(6):
            fused = chain("fused", own, x[c, i])
            local, head = chain("local", own, x[c, i])[-1], chain("head", own, fused[-2], 3)[-1]
            # The own head knows the person's two classes alone.
            head = torch.cat([head[:2] / head[:2].sum(), torch.zeros(2)])
            mix = 0.7 * local + 0.2 * fused[-1] + 0.1 * head
            torch.testing.assert_close(found[c, i].exp(), mix, atol=1e-5, rtol=1e-4)
