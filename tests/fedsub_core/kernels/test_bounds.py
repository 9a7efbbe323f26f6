"""What does not go together is refused in C, before anything is read or written."""

import ctypes
from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.encoders.spectrum import turns
from fedsub_core.kernels.chains import Call
from fedsub_core.kernels.known import AFFINE
from fedsub_core.kernels.library import Buffer, Kernels, Relevance, Steps, check
from fedsub_core.models.kinds import cnn1d

MODEL = cnn1d(2, 32, 3)
CHAIN, SAMPLES, CALL = -2, -3, -4
CLIENTS, HELD, PLACES = 2, 20, 24


class Made:
    """A call that is right, of each kind, whose structures a test then breaks."""

    def __init__(self) -> None:
        self.call, self.params = Call(), MODEL.init(CLIENTS, seed=1)
        into = {name: torch.zeros_like(tensor) for name, tensor in self.params.items()}
        trained = {name.rpartition(".")[0] for name in into}
        self.chain = self.call.chain(MODEL.known, CLIENTS, self.params, into, trained, True)
        self.layers = self.chain.layers
        x = torch.randn(CLIENTS, HELD, *MODEL.input_shape)
        self.y = torch.arange(HELD).repeat(CLIENTS, 1) % 3
        self.order = torch.arange(PLACES).repeat(CLIENTS, 1) % HELD
        weight = torch.full((CLIENTS, PLACES), 1 / 8)
        self.counts = (ctypes.c_int64 * CLIENTS)(HELD, PLACES)
        self.samples = self.call.samples(
            MODEL.known, x, [HELD] * CLIENTS, self.y, self.order, weight
        )
        self.samples.counts.at = ctypes.addressof(self.counts)
        self.seen = self.call.samples(MODEL.known, x, [HELD] * CLIENTS, self.y)
        self.steps = Steps(batch=8, steps=0, update=1, rate=0.1)
        self.out = torch.zeros(CLIENTS, HELD, MODEL.classes)
        affine = [layer.kind == AFFINE for layer in MODEL.known]
        self.sums = [torch.zeros(CLIENTS, 3, layer.units) for layer in MODEL.known]
        placed = zip(self.sums, affine, strict=True)
        places = [self.call.place(s, True) if a else Buffer() for s, a in placed]
        self.sums_at = (Buffer * len(affine))(*places)
        self.made = self.call.place(self.out, True)
        self.relevance = Relevance(1, 2.0, 1.0, 0, self.sums_at, self.made)

    def descend(self, kernels: Kernels) -> int:
        return kernels.descend(self.chain, self.samples, self.steps)

    def forward(self, kernels: Kernels) -> int:
        return kernels.forward(self.chain, self.seen, self.made)

    def relate(self, kernels: Kernels) -> int:
        return kernels.relate(self.chain, self.seen, self.relevance)


Spoil = Callable[[Made], None]


def putting(find: Callable[[Made], object], values: Mapping[str, float | None]) -> Spoil:
    """Return what sets fields of one of a call's structures."""

    def spoil(made: Made) -> None:
        for name, value in values.items():
            setattr(find(made), name, value)

    return spoil


def of_layer(i: int, **values: int | None) -> Spoil:
    return putting(lambda made: made.layers[i], values)


def of_weight(i: int, what: str, **values: int | None) -> Spoil:
    return putting(lambda made: getattr(made.layers[i].weight, what), values)


def of_buffer(structure: str, what: str, **values: int | None) -> Spoil:
    return putting(lambda made: getattr(getattr(made, structure), what), values)


def of(what: str, **values: float | None) -> Spoil:
    return putting(lambda made: getattr(made, what), values)


def at(what: str, place: tuple[int, int], value: int) -> Spoil:
    return lambda made: getattr(made, what).__setitem__(place, value)


def counting(client: int, value: int) -> Spoil:
    return lambda made: made.counts.__setitem__(client, value)


def untrained(made: Made) -> None:
    for i in range(made.chain.count):
        made.layers[i].trained = 0


LAST = len(MODEL.known) - 1
#: Of layers: what is wrong with any call.
WRONG_CHAINS = {
    "no layers": of("chain", count=0),
    "nowhere": of("chain", layers=None),
    "more layers than numbers": of("chain", count=1 << 40),
    "a kind": of_layer(1, kind=7),
    "no channels": of_layer(0, channels=0),
    "a negative length": of_layer(0, length=-32),
    "other units": of_layer(0, units=5),
    "more positions": of_layer(0, made=MODEL.known[0].made + 1),
    "a kernel longer than what it sees": of_layer(0, kernel=99),
    "no stride": of_layer(0, stride=0),
    "negative padding": of_layer(0, padding=-1),
    "numbers without end": of_layer(0, channels=1 << 62),
    "windows beyond": of_layer(1, kernel=MODEL.known[1].kernel + 1),
    "no weights": of_weight(LAST, "values", at=None),
    "too few weights": of_weight(0, "values", count=CLIENTS * 32 * 2 * 7 - 1),
    "clients that go back": of_weight(0, "values", step=-1),
    "clients without end": of_weight(0, "values", step=1 << 62),
}
WRONG_DESCENTS: dict[str, tuple[Spoil, int]] = {
    "a last ReLU": (of_layer(LAST, relu=1), CHAIN),
    "a negative count": (counting(0, -1), SAMPLES),
    "more than places": (counting(1, PLACES + 1), SAMPLES),
    "no samples": (of_buffer("samples", "x", at=None), SAMPLES),
    "no classes": (of_buffer("samples", "y", at=None), SAMPLES),
    "no counts": (of_buffer("samples", "counts", at=None), SAMPLES),
    "clients without end": (of("samples", clients=1 << 40), SAMPLES),
    "an order beyond": (at("order", (1, 3), HELD), SAMPLES),
    "an order before": (at("order", (0, 3), -1), SAMPLES),
    "a class beyond": (at("y", (1, 2), 3), SAMPLES),
    "a class before": (at("y", (0, 2), -1), SAMPLES),
    "no batch": (of("steps", batch=0), CALL),
    "a negative batch": (of("steps", batch=-8), CALL),
    "negative steps": (of("steps", steps=-1), CALL),
    "no weights of places": (of_buffer("samples", "weight", at=None), CALL),
    "prototypes nowhere": (of("steps", toward=0.5), CALL),
    "nothing trained": (untrained, CALL),
    "no buffer": (of_weight(0, "into", at=None), CALL),
    "clients over each other": (of_weight(0, "into", step=1), CALL),
    "models over each other": (of_weight(0, "values", step=0), CALL),
}


def test_what_is_right_is_computed(kernels: Kernels) -> None:
    made = Made()
    before = {name: tensor.clone() for name, tensor in made.params.items()}
    assert (made.forward(kernels), made.relate(kernels), made.descend(kernels)) == (0, 0, 0)
    assert made.out.any() and made.sums[0].any()
    assert not any(torch.equal(t, made.params[name]) for name, t in before.items())


@pytest.mark.parametrize("what", WRONG_CHAINS)
def test_layers_that_do_not_fit_are_refused_by_every_call(what: str, kernels: Kernels) -> None:
    for call in (Made.forward, Made.relate, Made.descend):
        made = Made()
        WRONG_CHAINS[what](made)
        assert call(made, kernels) == CHAIN


@pytest.mark.parametrize("what", WRONG_DESCENTS)
def test_a_descent_that_cannot_be_is_refused(what: str, kernels: Kernels) -> None:
    made, (spoil, returned) = Made(), WRONG_DESCENTS[what]
    before = {name: tensor.clone() for name, tensor in made.params.items()}
    spoil(made)
    assert made.descend(kernels) == returned
    assert all(torch.equal(t, made.params[name]) for name, t in before.items())


def test_passes_that_cannot_be_are_refused(kernels: Kernels) -> None:
    for returned, spoil in (
        (SAMPLES, of("seen", held=HELD - 1)),
        (SAMPLES, of_buffer("seen", "x", at=None)),
        (SAMPLES, of("seen", clients=-1)),
    ):
        made = Made()
        spoil(made)
        assert made.forward(kernels) == made.relate(kernels) == returned
    made = Made()
    for wrong in (dict(at=None), dict(step=1), dict(count=CLIENTS * HELD * 3 - 1)):
        spoiled = Made()
        putting(lambda of: of.made, wrong)(spoiled)
        assert spoiled.forward(kernels) == CALL
    made.y[1, HELD - 1] = 3
    assert made.forward(kernels) == 0, "a pass asks for no class"
    assert made.relate(kernels) == SAMPLES
    for spoil in (
        of_buffer("relevance", "logits", at=None),
        of_buffer("relevance", "logits", step=1),
        of_layer(0, relu=0),
    ):
        made = Made()
        spoil(made)
        assert made.relate(kernels) == CALL
    made = Made()
    made.sums_at[0] = Buffer()
    assert made.relate(kernels) == CALL


def test_kernels_of_other_windows_are_refused(kernels: Kernels) -> None:
    table = KernelsEncoder(3, 0, (4, 40)).table
    windows, levels = np.zeros((2, 4, 40), np.int16), np.zeros((2, 3, 5), np.int8)

    def encode(table: np.ndarray, channels: int = 4, time: int = 40) -> int:
        return kernels.encode(
            table.ctypes.data, 3, windows.ctypes.data, 2, channels, time, levels.ctypes.data
        )

    assert encode(table) == 0
    assert encode(table, channels=0) == encode(table, time=0) == SAMPLES
    for place, value in ((0, 0), (1, 0), (2, -1), (4, 9), (9, 10), (9, -1), (10, 4), (10, -1)):
        wrong = table.copy()
        wrong[1, place] = value
        assert encode(wrong) == CHAIN, (place, value)


def test_statistics_of_windows_that_are_not_there_are_not_computed(kernels: Kernels) -> None:
    sensors, wheel = np.array([[0, 3, -1, -1]], np.int32), turns(128)
    windows, levels = np.zeros((2, 4, 40), np.int16), np.zeros((2, 91), np.int8)

    def describe(groups: int = 15, half: int = 64, channels: int = 4, time: int = 40) -> int:
        return kernels.describe(
            *(groups, sensors.ctypes.data, 1, wheel.ctypes.data, half, windows.ctypes.data, 2),
            *(channels, time, levels.ctypes.data),
        )

    assert describe() == 0 and levels.any()
    assert describe(groups=0) == describe(channels=0) == describe(time=1) == SAMPLES
    assert describe(half=32) == describe(half=96) == describe(time=129) == SAMPLES
    sensors[0, 1] = 4
    assert describe() == CHAIN


def test_what_a_call_returns_says_what_is_wrong() -> None:
    check(0)
    with pytest.raises(MemoryError, match="no memory left"):
        check(-1)
    with pytest.raises(ValueError, match="expected layers that fit each other"):
        check(CHAIN)
    with refused(ValueError, expected="counts, orders and classes"):
        check(SAMPLES)
    with pytest.raises(ValueError, match="expected what the call takes and writes"):
        check(CALL)
