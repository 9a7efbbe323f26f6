"""Sums that no samples can have led to are refused, and the message says why."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedsub.testing.lying_sums import LIES, lied
from fedsub.testing.refusals import refused
from fedsub_core.closed_form.grids import TEMPERATURES, packed
from fedsub_core.closed_form.sending import Rounded, flat
from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import statistics, triangle
from fedsub_core.errors import MessageRefused
from fedsub_core.wire.bundles import Bundle, Floats, Part, Whole
from fedsub_core.wire.envelope import refusal
from strategies.methods.fedsub_ridge.checks import check_equations, check_sums

CLASSES, FEATURES = 3, 6
REFUSE = partial(refusal, "eve", 2)
#: Places in a lower triangle: of the constant, of two features' squares and their product.
FIRST, SECOND, PRODUCT = packed(1) - 1, packed(2) - 1, packed(2) - 2


def upload(samples: int = 50, seed: int = 0) -> Bundle:
    stream = np.random.default_rng(seed)
    x = stream.integers(-128, 128, (samples, FEATURES)) / np.float32(128)
    y = stream.integers(0, CLASSES, samples)
    sums = Rounded.of(statistics(x.astype(np.float32), y, CLASSES))
    tensors: dict[str, Part] = {"gram": Whole(sums.gram), "cross": Whole(sums.cross)}
    tensors["shifts"] = Floats(sums.shifts.astype(np.float32))
    return Bundle(samples, tensors=tensors)


def with_(name: str, change: Callable[[Any], None]) -> Callable[[Bundle], Bundle]:
    """Return what changes one tensor of an upload."""

    def changed(one: Bundle) -> Bundle:
        part: Any = one.tensors[name]
        values = part.values.copy()
        change(values)
        return replace(one, tensors={**one.tensors, name: replace(part, values=values)})

    return changed


def put(place: Any, value: Any) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        values[place] = value

    return change


def lacking(name: str) -> Callable[[Bundle], Bundle]:
    return lambda one: replace(one, tensors={n: t for n, t in one.tensors.items() if n != name})


@pytest.mark.parametrize("samples", [1, 3, 50, 5_000])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_samples_lead_to_is_taken_however_it_is_rounded(samples: int, seed: int) -> None:
    check_sums(upload(samples, seed), REFUSE)


@pytest.mark.parametrize("samples", [1, 3, 400])
def test_of_features_that_never_vary_too(samples: int) -> None:
    x, y = np.full((samples, FEATURES), 127 / 128, np.float32), np.zeros(samples, np.int64)
    x[:, 1] = -1
    sums = Rounded.of(statistics(x, y, CLASSES))
    tensors: dict[str, Part] = {"gram": Whole(sums.gram), "cross": Whole(sums.cross)}
    tensors["shifts"] = Floats(sums.shifts.astype(np.float32))
    check_sums(Bundle(samples, tensors=tensors), REFUSE)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lacking("shifts"), "tensors of sums: got gram, cross, expected gram, cross, shifts, or"),
        (lacking("gram"), "tensors of sums: got cross, shifts"),
        (with_("shifts", put(0, 0.5)), r"shifts: got \[0.5, .* whole numbers from 0 to 16"),
        (with_("shifts", put(1, -1)), "shifts: got"),
        (with_("shifts", put(3, 17)), "shifts: got"),
        (lambda one: replace(one, examples=51), "of all classes: got 50, expected 51, its ex"),
        (with_("cross", put((0, 0), -128)), "samples of all classes: got"),
        (with_("cross", put((1, 2), 30_000)), "cross: got a sum of 30000 levels, expected at most"),
        (with_("gram", put(1, 7)), "gram: got products with the constant, expected none: cross"),
        (with_("gram", put(FIRST, -5)), "gram: got squares of -.*, expected 0 to 819200, its"),
        (with_("shifts", put(2, 9)), "gram: got squares of .*, expected 0 to 819200"),
        (with_("gram", put(PRODUCT, 32_000)), "gram: got a product larger than its squares allow"),
        (with_("gram", put(SECOND, 0)), "gram: got a product larger than its squares allow"),
    ],
)
def test_other_sums_are_refused_by_name(change: Callable[[Bundle], Bundle], complaint: str) -> None:
    with pytest.raises(MessageRefused, match=complaint) as caught:
        check_sums(change(upload()), REFUSE)
    assert "client 'eve', round 2" in str(caught.value)


@pytest.mark.parametrize("name", ["empty sums", "torn sums", "strong sums"])
def test_products_that_pass_in_pairs_are_refused_together(name: str) -> None:
    honest = upload(5 if name == "strong sums" else 50)
    check_sums(honest, REFUSE)
    with refused(MessageRefused, what="gram", got="products"):
        check_sums(lied(honest, LIES[name]), REFUSE)


def equations() -> Equations:
    """Return a sample's worth of what three candidates said, of 40 samples."""
    stream = np.random.default_rng(0)
    said = stream.normal(0, 1, (3, 40 * CLASSES))
    right = np.where(stream.random(40 * CLASSES) < 0.3, 1.0, -1.0)
    losses = np.full(len(TEMPERATURES), 0.7)
    return Equations(1.0, said @ said.T / 40, said @ right / 40, losses)


def check(of: Equations) -> None:
    sent = Floats(flat(of).astype(np.float32))
    check_equations(Bundle(40, tensors={"equations": sent}), 3, CLASSES, REFUSE)


@pytest.mark.parametrize(
    ("name", "place", "value", "complaint"),
    [
        ("gram", (1, 1), -1.0, "equations: got a square of -1, expected at least 0"),
        ("gram", (2, 0), 99.0, "equations: got a product larger than its squares allow"),
        ("target", 0, 9.0, "equations: got candidates' products with what is right, larger"),
        ("losses", 3, -0.1, "equations: got a loss of -0.1 nats, expected at least 0"),
    ],
)
def test_other_equations_are_refused_by_name(
    name: str, place: Any, value: float, complaint: str
) -> None:
    honest = equations()
    check(honest)
    values = getattr(honest, name).copy()
    values[place] = value
    with pytest.raises(MessageRefused, match=complaint):
        check(replace(honest, **{name: values}))


def test_equations_that_pass_in_pairs_are_refused_together() -> None:
    """No three candidates are all the opposite of each other."""
    gram = np.full((3, 3), -0.9) + 1.9 * np.eye(3)
    with refused(MessageRefused, what="equations", got="products"):
        check(replace(equations(), gram=gram, target=np.zeros(3)))


def test_who_sends_chooses_no_room_for_itself() -> None:
    """A halving that was not needed would let numbers pass that are four times as large."""
    honest = upload(12)
    for feature in (0, 3):
        small = with_("gram", put(packed(feature) - 1, 0))(honest)
        with refused(MessageRefused, what=f"shifts of feature {feature}", got=16):
            check_sums(with_("shifts", put(1 + feature, 16.0))(_without(small, feature)), REFUSE)
    nothing = with_("cross", put(slice(None), 0))(honest)
    with refused(MessageRefused, "cross", 16, 0):
        check_sums(with_("shifts", put(0, 16.0))(_without(nothing, 0)), REFUSE)


def _without(one: Bundle, feature: int) -> Bundle:
    """Return an upload whose products with a feature are 0, so that they fit any square."""
    rows, columns, _ = triangle(FEATURES + 1)
    return with_("gram", put((rows == feature) | (columns == feature), 0))(one)


@pytest.mark.parametrize("samples", [1, 2, 130, 131, 40_000])
def test_the_halvings_of_real_sums_are_needed(samples: int) -> None:
    """Also at the borders, where a number just fits."""
    for level in (127, -128, 90, 3, 0):
        x = np.full((samples, FEATURES), level / 128, np.float32)
        x[: samples // 2, 1] = -level / 128
        y = np.zeros(samples, np.int64)
        sums = Rounded.of(statistics(x, y, CLASSES))
        tensors: dict[str, Part] = {"gram": Whole(sums.gram), "cross": Whole(sums.cross)}
        tensors["shifts"] = Floats(sums.shifts.astype(np.float32))
        check_sums(Bundle(samples, tensors=tensors), REFUSE)
