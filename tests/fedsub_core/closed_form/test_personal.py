"""A person's head: never far from the best candidate, whole with a class or a sample alone."""

from collections.abc import Sequence

import numpy as np
import pytest

from fedsub_core.closed_form.candidates import Shared
from fedsub_core.closed_form.grids import ALONE, ON_EACH
from fedsub_core.closed_form.noise import deviation, noisy
from fedsub_core.closed_form.personal import Head, Mixing, Sums, personal_head
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import UNIT, statistics, total

CLASSES, FEATURES = 4, 30

Person = tuple[np.ndarray, np.ndarray]


def _samples(seed: int, samples: int, alike: float) -> tuple[np.ndarray, np.ndarray]:
    stream = np.random.default_rng(seed)
    common = np.random.default_rng(99).normal(0, 40, (CLASSES, FEATURES))
    own = alike * common + (1 - alike) * stream.normal(0, 40, (CLASSES, FEATURES))
    y = np.arange(samples) % CLASSES
    x = own[y] + stream.normal(0, 60, (samples, FEATURES))
    return np.clip(np.rint(x), -UNIT, UNIT - 1) / UNIT, y


def _everybody(alike: float, samples: int = 12) -> tuple[list[Person], Shared]:
    people = [_samples(seed, samples, alike) for seed in range(10)]
    sums = total([statistics(x, y, CLASSES) for x, y in people])
    return people, Shared(Scale.of(sums), sums)


def _head(person: Person, sets: Sequence[Sums] = ()) -> Head:
    x, y = person
    return personal_head(x, y, CLASSES, sets)


def _right(head: Head, x: np.ndarray, y: np.ndarray) -> float:
    return float(((x @ head.weight.T + head.bias).argmax(1) == y).mean())


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_leave_one_out_finds_who_is_of_use(alike: float) -> None:
    people, shared = _everybody(alike)
    (x, y), unseen = people[0], slice(12, None)
    test_x, test_y = (part[unseen] for part in _samples(0, 2000, alike))
    first = [_head(one, [shared]).equations for one in people]
    pooled = Equations(*(sum(getattr(e, f) for e in first) for f in Equations.__annotations__))
    mine = _right(personal_head(x, y, CLASSES), test_x, test_y)
    mixed = _right(personal_head(x, y, CLASSES, [shared], pooled), test_x, test_y)
    if alike:
        assert mixed > mine + 0.05
    else:
        assert mixed > mine - 0.03


def test_noise_is_not_lent_in_the_place_of_a_class_that_a_person_lacks() -> None:
    people, shared = _everybody(1.0)
    (x, y), (test_x, test_y) = (
        (x[y < CLASSES - 1], y[y < CLASSES - 1]) for x, y in (people[0], _samples(50, 2000, 1.0))
    )
    own = _right(personal_head(x, y, CLASSES), test_x, test_y)
    right = []
    for seed in range(8):
        hidden = noisy(shared.sums, 4.0, np.random.default_rng(seed))
        sets, least = [Shared(Scale.of(hidden), hidden)], 2 * deviation(FEATURES, 4.0)
        heads = [personal_head(x, y, CLASSES, sets, how=Mixing(lent_from=n)) for n in (0.0, least)]
        right.append([_right(head, test_x, test_y) for head in heads])
    lent, kept = np.mean(right, 0)
    assert kept > own - 0.02 > lent + 0.02


def test_equations_are_as_large_as_said() -> None:
    people, shared = _everybody(0.5)
    assert len(_head(people[0]).equations.target) == ALONE // 2
    on_two = _head(people[0], [shared, [shared] * CLASSES]).equations
    assert on_two.gram.shape == (ALONE + 2 * ON_EACH,) * 2


def test_a_classs_own_sums_decide_its_column_alone() -> None:
    people, shared = _everybody(0.5)
    x, y = people[0]
    fewer = total([statistics(one_x, one_y, CLASSES) for one_x, one_y in people[:3]])
    group = Shared(shared.scale, fewer)
    same = personal_head(x, y, CLASSES, [shared, [group] * CLASSES])
    as_one = personal_head(x, y, CLASSES, [shared, group])
    np.testing.assert_allclose(same.weight, as_one.weight, atol=1e-9)


def test_classes_that_a_person_lacks_come_from_everybody() -> None:
    people, shared = _everybody(1.0, samples=40)
    x, y = people[0]
    have = y < 2
    head = personal_head(x[have], y[have], CLASSES, [shared])
    test_x, test_y = _samples(0, 2000, 1.0)
    lacking = test_y >= 2
    assert _right(head, test_x[lacking], test_y[lacking]) > 0.5
    alone = personal_head(x[have], y[have], CLASSES)
    assert _right(alone, test_x[lacking], test_y[lacking]) == 0


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_few_samples_go_by_everybodys(samples: int) -> None:
    people, shared = _everybody(1.0, samples=40)
    x, y = people[0]
    first = [_head(one, [shared]).equations for one in people]
    pooled = Equations(*(sum(getattr(e, f) for e in first) for f in Equations.__annotations__))
    test_x, test_y = _samples(0, 2000, 1.0)
    for prior in (pooled, None):
        head = personal_head(x[:samples], y[:samples], CLASSES, [shared], prior)
        assert np.isfinite(head.weight).all() and np.isfinite(head.bias).all()
    assert (
        _right(personal_head(x[:samples], y[:samples], CLASSES, [shared], pooled), test_x, test_y)
        > 0.6
    )
    assert np.isfinite(personal_head(x[:samples], y[:samples], CLASSES).weight).all()


def test_people_with_one_sample_of_each_class_say_nothing_of_candidates_and_have_heads() -> None:
    people, shared = _everybody(0.0)
    x, y = (part[:CLASSES] for part in people[0])
    head = personal_head(x, y, CLASSES, [shared])
    assert head.equations.samples == CLASSES
    assert not head.equations.gram.any() and not head.equations.losses.any()
    everybodys = personal_head(x, y, CLASSES, [shared], how=Mixing(heads="everybody"))
    unseen_x, unseen_y = _samples(0, 2000, 0.0)
    assert _right(head, unseen_x, unseen_y) > _right(everybodys, unseen_x, unseen_y) + 0.1


def test_what_a_person_has_without_others_knows_nothing_of_them() -> None:
    people, shared = _everybody(1.0)
    x, y = people[0]
    have = y < 2
    first = personal_head(x[have], y[have], CLASSES)
    np.testing.assert_array_equal(first.alone[0], first.weight)
    np.testing.assert_array_equal(first.alone[1], first.bias)
    mixed = personal_head(x[have], y[have], CLASSES, [shared], _head(people[1], [shared]).equations)
    np.testing.assert_array_equal(mixed.alone[0], first.weight)
    own = personal_head(x[have], y[have], CLASSES, [shared], how=Mixing(heads="own"))
    # Nothing is lent to heads of own samples alone: of classes that they lack they know no other.
    np.testing.assert_array_equal(own.weight[2], own.weight[3])
    assert np.abs(mixed.weight[2] - mixed.weight[3]).max() > 0.1


def test_classes_that_a_person_lacks_are_not_answered_where_nothing_is_lent() -> None:
    people, shared = _everybody(1.0, samples=40)
    x, y = people[0]
    have = y < 2
    closed = personal_head(x[have], y[have], CLASSES, [shared], how=Mixing(lends=False))
    test_x, _ = _samples(0, 2000, 1.0)
    assert set((test_x @ closed.weight.T + closed.bias).argmax(1)) == {0, 1}
    every = personal_head(x, y, CLASSES, [shared], how=Mixing(lends=False))
    np.testing.assert_array_equal(every.weight, personal_head(x, y, CLASSES, [shared]).weight)


def test_what_a_mixture_is_held_against() -> None:
    people, shared = _everybody(1.0)
    (x, y), (other_x, other_y) = people[:2]
    alone = personal_head(x, y, CLASSES, [shared], how=Mixing(heads="own"))
    assert np.abs(alone.weight - personal_head(x, y, CLASSES, [shared]).weight).max() > 0.1
    # Everybody's is the same for all but how the default and leave-one-out weigh penalties.
    first = [_head(one, [shared]).equations for one in people]
    pooled = Equations(*(sum(getattr(e, f) for e in first) for f in Equations.__annotations__))
    mine, theirs = (
        personal_head(one_x, one_y, CLASSES, [shared], pooled, Mixing(1e9, "everybody"))
        for one_x, one_y in ((x, y), (other_x, other_y))
    )
    alike = np.corrcoef(mine.weight.ravel(), theirs.weight.ravel())[0, 1]
    assert alike > 0.999 > np.corrcoef(alone.weight.ravel(), theirs.weight.ravel())[0, 1] + 0.01


def test_what_a_neighbour_gives_away_is_not_believed_of_a_stretch() -> None:
    """Each window has a twin behind it: left out alone it has been seen."""
    x, y = _samples(0, 24, 0.0)
    order = np.argsort(y, kind="stable")
    x, y = np.repeat(x[order], 2, axis=0), np.repeat(y[order], 2)

    def loss(stretches: int) -> float:
        return float(
            personal_head(x, y, CLASSES, how=Mixing(stretches=stretches)).equations.losses.min()
        )

    assert loss(0) < 0.5 * loss(3)
    assert loss(0) == loss(len(y)), "single samples"
