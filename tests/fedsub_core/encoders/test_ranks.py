"""Ranks of feature vectors: what they depend on, and what they do not."""

from dataclasses import replace

import numpy as np
import pytest

from fedsub_client.cohort import Cohort
from fedsub_client.loaded_model import check_usable
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import read_config
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.encoders.encoder import quantised
from fedsub_core.encoders.ranks_encoder import NORMAL_PLACES, PLACES, RanksEncoder, places, ranks
from fedsub_core.errors import RunError

RNG = np.random.default_rng(5)
SAMPLES = RNG.standard_normal((400, 3)).astype(np.float32)


def test_many_samples_have_uniform_ranks_whatever_their_units() -> None:
    """Scale, shift and skew of a person's entries change few ranks, and those by a place."""
    plain = quantised(SAMPLES)
    found = ranks(plain.astype(np.int32), places(plain))
    counts = np.bincount(found[:, 0] // 14 + PLACES, minlength=2 * PLACES + 1)
    assert counts.sum() == 400 and counts[1:-1].max() < 30
    for changed in (0.5 * SAMPLES + 1, np.exp(SAMPLES) - 1):
        steps = quantised(changed.astype(np.float32))
        apart = np.abs(ranks(steps.astype(np.int32), places(steps)) - found)
        assert np.median(apart) <= 28 and apart.max() <= 140


def test_few_samples_hardly_move_what_everybody_has() -> None:
    none, one = places(np.empty((0, 3), np.int16)), places(quantised(SAMPLES[:1]))
    assert np.array_equal(none, np.tile(NORMAL_PLACES[:, None], 3))
    assert (one != none).sum() <= PLACES * 3 and np.abs(one.astype(int) - none).max() < 300
    assert np.array_equal(none, -none[::-1]) and (np.diff(none, axis=0) > 0).all()


def test_equal_entries_have_the_rank_between_those_below_and_above() -> None:
    steps = np.zeros((1000, 1), np.int16)
    found = ranks(np.array([[-1], [0], [1]], np.int32), places(steps))
    assert found.ravel().tolist() == [-448, 0, 448]


def test_half_of_the_units_are_everybodys() -> None:
    """Units take turns, so that a weak device has both kinds."""
    encoder = RanksEncoder(10, 0, (3,))
    own = encoder.of_person(quantised(3 * SAMPLES[:50] + 2))
    steps = quantised(SAMPLES)
    same = (encoder.levels(steps) == own.levels(steps)).all(0)
    assert same[:3].all() and same[3::2].all() and not same[4::2].any()
    narrow = replace(encoder, size=4).of_person(quantised(3 * SAMPLES[:50] + 2))
    assert np.array_equal(narrow.levels(steps), own.levels(steps)[:, :7])


def growing(since: bool) -> Cohort:
    y = np.arange(90) % 3
    x = RNG.normal(y[:, None], 0.5, (90, 2)).astype(np.float32)
    data = ClientData("p", x, y, None, np.where(np.arange(90) > 44, 4, 0) if since else None)
    config = read_config(None, {"encoder": "ranks:8", "method": "fedsub-ridge"})
    card = Card("toy", "test", ("a", "b", "c"), ("u", "v"))
    parts = split_client(data, card, config.split_settings)
    return make_cohort(config.device_settings("fedsub-ridge"), card, [parts])


def test_features_stay_when_samples_come() -> None:
    """The server keeps sums over the first samples, and a device knows these by their features."""
    cohort = growing(since=True)
    data = cohort.data
    before, after = (data.at(round, None)[0] for round in (1, 4))
    n = before.counts[0]
    assert after.counts[0] > n
    assert np.array_equal(before.x[0, :n], after.x[0, :n])
    model = cohort.personal_model(0, cohort.learner.predicted_by(cohort.state), 4, None)
    assert isinstance(model.encoder, RanksEncoder) and model.encoder.places is not None
    first = cohort.clients[0].at(1).train_x
    assert len(first) == n and np.array_equal(model.encoder.places, places(quantised(first)))


def test_a_file_with_places_of_another_shape_is_not_used() -> None:
    cohort = growing(since=False)
    params = cohort.learner.predicted_by(cohort.state)
    model = cohort.personal_model(0, params, 1, None)
    check_usable(model, "here")
    assert isinstance(model.encoder, RanksEncoder) and model.encoder.places is not None
    for wrong in (model.encoder.places[:, :1], model.encoder.places[1:]):
        broken = replace(model, encoder=replace(model.encoder, places=wrong))
        with pytest.raises(RunError, match=r"here: got parameters .*encoder\.places.* expected"):
            check_usable(broken, "here")
