"""A sensor for each client: gain, offset and the way it is worn."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Card, ClientData, Federation, read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.partitions.feature_shift import FeatureShiftOptions, feature_shift
from fedsub_data.preparing.preparation import Counts

FEATURES = ("pulse", "acc_x", "acc_y", "acc_z", "gyro_x_mean", "gyro_y_mean", "gyro_z_mean")


def people(clients: int = 5, samples: int = 40, time: int | None = None) -> Federation:
    rng = np.random.default_rng(0)
    shape = (samples, len(FEATURES)) if time is None else (samples, len(FEATURES), time)
    scale = np.array([10.0, 1, 1, 1, 2, 2, 2]).reshape(-1, *[1] * (len(shape) - 2))
    made = {
        f"p{i}": ClientData(
            f"p{i}", (rng.normal(size=shape) * scale).astype(np.float32), np.arange(samples) % 2
        )
        for i in range(clients)
    }
    return Federation(Card("toy", "test", ("a", "b"), FEATURES), made)


def shifted(federation: Federation, seed: int = 0, **options: Any) -> dict[str, ClientData]:
    return feature_shift(federation, FeatureShiftOptions(**options), seed, Counts())


def fit(before: NDArray[Any], after: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each channel's gain and offset by least squares."""
    channels = zip(np.moveaxis(before, 1, 0), np.moveaxis(after, 1, 0), strict=True)
    lines = [np.polyfit(b.ravel(), a.ravel(), 1) for b, a in channels]
    gain, offset = np.array(lines).T
    return gain, offset


def test_no_gain_no_offset_no_rotation_is_no_change() -> None:
    federation = people()
    made = shifted(federation, gain=0.0, offset=0.0)
    for name, data in federation.clients.items():
        np.testing.assert_array_equal(made[name].x, data.x)
        assert made[name].y is data.y


@pytest.mark.parametrize("time", [None, 8])
def test_every_client_has_a_gain_and_an_offset_per_channel(time: int | None) -> None:
    federation = people(clients=400, samples=12, time=time)
    made = shifted(federation, gain=0.2, offset=0.5)
    fits = [fit(d.x, made[name].x) for name, d in federation.clients.items()]
    gains, offsets = np.array([f[0] for f in fits]), np.array([f[1] for f in fits])
    np.testing.assert_allclose(np.log(gains).mean(axis=0), 0, atol=4 * 0.2 / 20)
    np.testing.assert_allclose(np.log(gains).std(axis=0), 0.2, rtol=0.15)
    # Offsets are in units of the channel's own standard deviation: 10, 1 and 2.
    np.testing.assert_allclose(offsets.std(axis=0), [5, 0.5, 0.5, 0.5, 1, 1, 1], rtol=0.2)
    assert made["p0"].x.dtype == np.float32


@pytest.mark.parametrize("time", [None, 8])
def test_a_rotation_keeps_lengths_and_turns_all_triples_alike(time: int | None) -> None:
    federation = people(clients=100, time=time)
    made = shifted(federation, gain=0.0, offset=0.0, rotation=30.0)
    angles = []
    for name, data in federation.clients.items():
        before, after = np.moveaxis(data.x, 1, -1), np.moveaxis(made[name].x, 1, -1)
        before, after = before.reshape(-1, 7), after.reshape(-1, 7)
        np.testing.assert_array_equal(after[:, 0], before[:, 0])
        matrices = [
            np.linalg.lstsq(before[:, i : i + 3], after[:, i : i + 3], rcond=None)[0].T
            for i in (1, 4)
        ]
        np.testing.assert_allclose(matrices[0], matrices[1], atol=1e-5)
        np.testing.assert_allclose(matrices[0] @ matrices[0].T, np.eye(3), atol=1e-5)
        np.testing.assert_allclose(np.linalg.det(matrices[0]), 1, atol=1e-5)
        angles.append(np.degrees(np.arccos(min((np.trace(matrices[0]) - 1) / 2, 1.0))))
    assert max(angles) <= 30.01
    # Uniform in [0, 30]: mean 15, deviation 8.7.
    assert abs(np.mean(angles) - 15) < 4 * 8.7 / 10


def test_what_cannot_be_negative_stays_so() -> None:
    """Deviations and energies: a gain does nothing to their sign, an offset would."""
    plain = people()
    squared = {
        n: replace(d, x=np.concatenate([d.x[:, :3] ** 2, d.x[:, 3:]], 1))
        for n, d in plain.clients.items()
    }
    counts = Counts()
    options = FeatureShiftOptions(gain=0.2, offset=5.0)
    made = feature_shift(Federation(plain.card, squared), options, 0, counts)
    assert counts["channels never below 0: without an offset"] == 3
    for name, data in made.items():
        gain, offset = fit(squared[name].x, data.x)
        assert (data.x[:, :3] >= 0).all() and np.abs(offset[:3]).max() < 1e-3
        assert np.abs(offset[3:]).max() > 1 and len(set(np.round(gain, 3))) == 7


def test_a_rotation_leaves_the_gains_as_they_were() -> None:
    federation = people()
    plain, turned = shifted(federation), shifted(federation, rotation=90.0)
    for name in federation.clients:
        np.testing.assert_array_equal(plain[name].x[:, 0], turned[name].x[:, 0])
        assert np.abs(plain[name].x[:, 1:] - turned[name].x[:, 1:]).max() > 0.1


def test_a_sensor_depends_on_the_seed_and_the_client_alone() -> None:
    federation = people()
    again = Federation(federation.card, dict(reversed(federation.clients.items())))
    one, same, other = shifted(federation), shifted(again), shifted(federation, seed=1)
    for name in federation.clients:
        np.testing.assert_array_equal(one[name].x, same[name].x)
        assert not np.array_equal(one[name].x, other[name].x)
    gains = [fit(d.x, one[name].x)[0] for name, d in federation.clients.items()]
    assert len({tuple(np.round(g, 6)) for g in gains}) == 5


def test_iid_deals_all_samples_evenly_before_shifting() -> None:
    federation = people()
    made = shifted(federation, base="iid", clients=7, gain=0.0, offset=0.0)
    assert sorted(len(d.y) for d in made.values()) == [28, 28, 28, 29, 29, 29, 29]
    before = np.concatenate([d.x for d in federation.clients.values()])
    after = np.concatenate([d.x for d in made.values()])
    np.testing.assert_array_equal(np.sort(before, axis=0), np.sort(after, axis=0))
    with refused(DataError, "101 clients", "202 samples", got=200):
        shifted(federation, base="iid", clients=101)


def test_a_rotation_of_nothing_is_refused(real_data: Path) -> None:
    wesad = read_federation(real_data / "wesad")
    with refused(ConfigError, "rotation", "_x, _y and _z", got=15):
        shifted(wesad, rotation=15.0)


@pytest.mark.parametrize(("name", "sensors"), [("wisdm", 1), ("wisdm-windows", 1), ("uci-har", 3)])
def test_the_3_axis_sensors_of_real_federations(real_data: Path, name: str, sensors: int) -> None:
    federation, counts = read_federation(real_data / name), Counts()
    options = FeatureShiftOptions(gain=0.0, offset=0.0, rotation=20.0)
    made = feature_shift(federation, options, 0, counts)
    assert counts["3-axis sensors turned"] == sensors
    first = next(iter(federation.clients))
    before, after = federation.clients[first].x[:, :3], made[first].x[:, :3]
    np.testing.assert_allclose(
        np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1), rtol=1e-3, atol=1e-3
    )
    assert not np.allclose(before, after, atol=1e-3)
