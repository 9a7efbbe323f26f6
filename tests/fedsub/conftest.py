"""A small federation on disk, for whole runs; a Ray cluster of two nodes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fedsub_core.data.federation import Card, ClientData, Federation, write_federation

from .ray_nodes import Nodes


def make_town(clients: int = 4, samples: int = 12, seed: int = 0) -> Federation:
    """Return a federation of people whose feature distributions differ, in memory."""
    stream = np.random.default_rng(seed)
    people = {}
    for i in range(clients):
        y = np.tile(np.arange(3), samples + i)
        x = stream.normal(size=(len(y), 4)) + 2 * np.eye(3, 4)[y] + stream.normal(size=4)
        people[f"p{i + 1}"] = ClientData(f"p{i + 1}", x.astype(np.float32), y)
    card = Card("town", "a test", ("sit", "walk", "run"), ("a", "b", "c", "d"))
    return Federation(card, people)


@pytest.fixture(scope="session")
def town() -> Callable[..., Federation]:
    """The maker of a small federation."""
    return make_town


@pytest.fixture
def town_folder(town: Callable[..., Federation], tmp_path: Path) -> Path:
    """The federation's folder, whose files a test may spoil."""
    write_federation(tmp_path / "town", town())
    return tmp_path / "town"


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Nodes]:
    """A node in a folder of its own, where no other test's Ray looks for a cluster."""
    # Sockets' paths must be short: no folder of pytest's.
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as environment:
        for name in ("RAY_TMPDIR", "TMPDIR"):
            environment.setenv(name, place)
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # By default Ray's processes give way to all others: beside other tests they would starve.
        environment.setenv("RAY_worker_niceness", "0")
        nodes = Nodes(Path(place))
        try:
            yield nodes
        finally:
            nodes.cluster.shutdown()


@pytest.fixture
def nodes(ray_cluster: Nodes) -> Nodes:
    """Two nodes, also after a test that lost one."""
    ray_cluster.complete()
    return ray_cluster
