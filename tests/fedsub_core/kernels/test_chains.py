"""Which models the kernels know, and that a forward pass is PyTorch's."""

import pytest
import torch
from torch import Tensor

from fedsub.testing.refusals import refused
from fedsub_core.backend import for_passes, for_relevance
from fedsub_core.errors import ConfigError
from fedsub_core.kernels import library
from fedsub_core.kernels.chains import Params, forward, relevance_sums
from fedsub_core.kernels.known import AFFINE, MAX_POOL, MEAN_POOL, Known, known
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU

#: Those that fuse multiplications and additions, on any processor, and all.
FUSED = "avx512", "avx2"
VARIANTS = *FUSED, "portable"
#: Of every length of what is left over of vectors and tiles.
MODELS = {
    "papers'": mlp(3, 6),
    "odd": mlp(17, 5, (33, 19)),
    "one layer": mlp(70, 3, ()),
    "narrow": mlp(1, 2, (1,)),
    "a flattened image": Chain((Flatten(), *mlp(24, 4, (40,)).layers), (2, 3, 4)),
    "ends in ReLU": Chain(mlp(9, 4, (20,)).layers[:2], (9,)),
    "cnn1d": cnn1d(3, 64, 5),
    "its body": Chain(cnn1d(3, 64, 5).layers[:6], (3, 64)),
    "its convolutions, flat": Chain(cnn1d(3, 64, 5).layers[:7], (3, 64)),
    "a point, padded": Chain(
        (Conv("a", 4, 3, (1,), (1,), (1,)), ReLU(), Conv("b", 5, 4, (3,), (1,), (0,))), (3, 1)
    ),
    "no pooling": Chain((Conv("a", 4, 3, (5,), (2,), (0,)), Flatten(), Linear("b", 3, 8)), (3, 8)),
    "other strides": Chain(
        (
            Conv("a", 5, 2, (4,), (3,), (2,)),
            ReLU(),
            Pool("max", (3,)),
            Conv("b", 7, 5, (3,), (2,), (0,)),
            ReLU(),
            Pool("avg", (2,)),
            Flatten(),
            Linear("c", 4, 14),
        ),
        (2, 80),
    ),
}


def samples(model: Chain, clients: int = 3, n: int = 97) -> Tensor:
    return torch.randn(clients, n, *model.input_shape, generator=torch.Generator().manual_seed(1))


def by_torch(model: Chain, params: Params, x: Tensor) -> Tensor:
    with torch.no_grad(), library.switched_off():
        return model.forward(dict(params), x)


def test_models_are_known_layer_by_layer() -> None:
    one, relu, two = Linear("a", 4, 6), ReLU(), Linear("b", 2, 4)
    dense = Known("a", AFFINE, 6, 1, 4, 1, 1, relu=True), Known("b", AFFINE, 4, 1, 2, 1, 1)
    assert known((Flatten(), one, relu, two), (2, 3)) == dense
    assert MODELS["other strides"].known == (
        Known("a", AFFINE, 2, 80, 5, 27, 4, 3, 2, relu=True),
        Known("", MAX_POOL, 5, 27, 5, 9, 3),
        Known("b", AFFINE, 5, 9, 7, 4, 3, 2, 0, relu=True),
        Known("", MEAN_POOL, 7, 4, 7, 2, 2),
        Known("c", AFFINE, 14, 1, 4, 1, 1),
    )


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (ReLU(), (3,)),  # what it sees is nobody's
        (Conv("a", 5, 2, (3, 2), (2, 1), (1, 0)), (2, 7, 8)),  # over two axes
        (Pool("max", (2,), (1,)), (2, 8)),  # windows overlap
        (Pool("avg", (3,)), (2, 8)),  # a window is left over
        (Pool("adaptive-avg", (3,)), (2, 8)),
        (Conv("a", 3, 2, (9,), (1,), (0,)), (2, 8)),  # nothing is left
    ],
    ids=str,
)
def test_other_layers_are_not(layer: Layer | Affine, shape: Shape) -> None:
    assert known((layer,), shape) == ()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", MODELS)
def test_a_forward_pass_is_pytorchs(
    name: str, variant: str, kernels: library.Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, offered(variant))
    model = MODELS[name]
    params, x = model.init(3, seed=2), samples(model)
    for part in (x, x[:, 1:34], x[:, :1], x[:1].expand(3, *x.shape[1:])):
        with torch.no_grad():
            assert for_passes(model.known, part).name == "kernels"
            found = model.forward(params, part)
        assert found.shape[2:] == model.output_shape
        torch.testing.assert_close(found, by_torch(model, params, part), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["odd", "cnn1d", "other strides"])
def test_instruction_sets_give_the_same_bits(
    name: str, kernels: library.Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = [variant for variant in FUSED if offered(variant) == variant]
    if len(variants) < 2:
        pytest.skip(f"this processor has {variants}: there are no two to compare")
    model, found = MODELS[name], []
    params, x = model.init(3, seed=2), samples(model)
    y = torch.arange(x.shape[1]).expand(3, -1) % model.classes
    for variant in variants:
        monkeypatch.setenv(library.VARIABLE, variant)
        chosen = library.kernels()
        assert chosen is not None and chosen.variant == variant
        made = forward(chosen, model.known, params, x)
        sums, logits = relevance_sums(chosen, model.known, params, x, y, [97, 5, 64], (2, 1), False)
        found.append([made, *sums, logits])
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


@pytest.mark.parametrize("name", ["odd", "cnn1d"])
def test_a_sample_gives_the_same_whoever_stands_beside_it(
    name: str, kernels: library.Kernels
) -> None:
    model = MODELS[name]
    params, x = model.init(3, seed=2), samples(model)
    one = {name: tensor[1:2] for name, tensor in params.items()}
    with torch.no_grad():
        whole = model.forward(params, x)
        assert torch.equal(model.forward(one, x[1:2, 40:45]), whole[1:2, 40:45])


def test_what_is_no_number_stays_none(kernels: library.Kernels) -> None:
    model = MODELS["odd"]
    params, x = model.init(3, seed=2), samples(model)
    params["linear1.weight"][1, 4] = torch.nan
    with torch.no_grad():
        found = model.forward(params, x)
    assert found[1].isnan().all() and not found[[0, 2]].isnan().any()


def test_pytorch_computes_what_the_kernels_cannot(kernels: library.Kernels) -> None:
    model = MODELS["odd"]
    params, x = model.init(3, seed=2), samples(model)
    assert str(for_passes(model.known, x)) == "pytorch (autograd follows)"
    learnt = {name: tensor.requires_grad_() for name, tensor in model.init(3, seed=2).items()}
    assert model.forward(learnt, x).requires_grad
    with torch.no_grad():
        doubles = {name: tensor.double() for name, tensor in params.items()}
        assert str(for_passes(model.known, x.double())) == "pytorch (numbers are float64)"
        assert str(for_passes((), x)) == "pytorch (the kernels do not know all layers)"
        assert model.forward(doubles, x.double()).dtype == torch.float64
        with library.switched_off():
            assert str(for_passes(model.known, x)) == "pytorch (there are no compiled kernels here)"
    signed = Chain((Linear("a", 4, 17), Linear("b", 5, 4)), (17,))
    assert str(for_relevance(signed.known, x)) == "pytorch (what a layer sees may be negative)"
    assert str(for_relevance(MODELS["cnn1d"].known, x)) == "kernels"
    assert (
        str(for_relevance(MODELS["its body"].known, x))
        == "pytorch (the last layer makes no logits)"
    )
    pooled = known((Pool("max", (2,)), Flatten(), Linear("a", 3, 8)), (2, 8))
    assert str(for_relevance(pooled, x)) == "pytorch (the first layer has no units)"


def offered(variant: str) -> str:
    """Return the instruction set if this processor has it, else the portable one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(library.VARIABLE, variant)
        try:
            library.kernels()
        except ConfigError:
            return "portable"
    return variant


def test_what_does_not_fit_is_refused(kernels: library.Kernels) -> None:
    """Sizes of tensors are held in Python, which knows them, all else in C."""
    model = MODELS["odd"]
    params, x = model.init(3, seed=2), samples(model)
    y, counts = torch.zeros(3, 97, dtype=torch.int64), [97, 97, 97]
    of = kernels, model.known
    for wrong in (
        (params, x[:, :, :9]),
        (params, x[:2]),
        (model.init(1, 0), x),
        (params | {"linear2.bias": torch.zeros(3, 20)}, x),
    ):
        with pytest.raises(ValueError, match=r"got shape .*, expected \d+ numbers of \d clients"):
            forward(*of, *wrong)
    with pytest.raises(ValueError, match="expected 97 numbers of 3 clients"):
        relevance_sums(*of, params, x, y[:, :9], counts, None, False)
    for classes, many in ((y + 5, counts), (y - 1, counts), (y, [98, 97, 97]), (y, [-1, 97, 97])):
        with refused(ValueError, expected="counts, orders and classes"):
            relevance_sums(*of, params, x, classes, many, None, False)
    assert relevance_sums(*of, params, x, y, counts, None, False)


def test_no_number_in_a_window_or_an_answer_is_passed_on(kernels: library.Kernels) -> None:
    model = MODELS["cnn1d"]
    params, x = model.init(3, seed=2), samples(model)
    for place in (32, 33):
        broken = x.clone()
        broken[0, 0, 0, place] = torch.nan
        with torch.no_grad():
            assert model.forward(params, broken)[0, 0].isnan().all()
    params["linear2.bias"][1, 2] = torch.nan
    y = torch.zeros(3, 97, dtype=torch.int64)
    sums, _ = relevance_sums(kernels, model.known, params, x, y, [97] * 3, (2, 1), False)
    assert sums[0][1, 0].isnan().all()
