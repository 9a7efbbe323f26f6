"""A real Ray cluster of two nodes on this machine."""

from pathlib import Path
from typing import Any


class Nodes:
    """A cluster of two nodes of one CPU each, whose temporary files lie in `place`."""

    def __init__(self, place: Path) -> None:
        from ray.cluster_utils import Cluster

        self.place = place
        self.cluster: Any = Cluster()
        self.first = self.cluster.add_node(num_cpus=1, include_dashboard=False)
        self.second: Any = None

    @property
    def address(self) -> str:
        """Where studies find the cluster."""
        return str(self.cluster.address)

    def complete(self) -> None:
        """Start the second node where there is none."""
        if self.second is None:
            self.second = self.cluster.add_node(num_cpus=1)

    def lose_second(self) -> None:
        """Kill the node that no study is started on, all its processes."""
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = None
