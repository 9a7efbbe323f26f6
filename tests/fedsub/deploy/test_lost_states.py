"""A device's disk is full for a round, another device's state is damaged: nobody else notices."""

import errno
import os
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedsub_client.store import STATE_FILE
from fedsub_core.metric_names import CONFUSION

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/mounts").exists() or os.geteuid() != 0, reason="only root mounts a disk"
    ),
]
Deployment = Any  # of conftest.py
Undisturbed = tuple[dict[str, dict[str, Any]], dict[Any, float], Path]

ROUNDS = 4


@dataclass
class Seen:
    """A deployment, and what was seen on its devices meanwhile."""

    deployment: Deployment
    before: bytes = b""
    while_full: bytes = b""
    names_while_full: frozenset[str] = frozenset()
    damaged: bytes = b""

    def values(self, client: str, metric: str) -> dict[int, float]:
        """A client's metric by round."""
        found = self.deployment.metrics().items()
        return {r: value for (r, c, m, _), value in found if (c, m) == (client, metric)}


def fill(folder: Path) -> Path:
    """Write a file until the disk is full."""
    path = folder / "photos"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC
    return path


def losses(seen: Seen) -> Generator[None, None, None]:
    d = seen.deployment
    p1, p2 = d.state("p1"), d.state("p2")
    yield from d.until_round(1)
    seen.before = (p1 / STATE_FILE).read_bytes()
    photos = fill(p1)
    yield from d.until_over("disk full")
    seen.while_full = (p1 / STATE_FILE).read_bytes()
    seen.names_while_full = frozenset(path.name for path in p1.iterdir())
    photos.unlink()

    data = bytearray((p2 / STATE_FILE).read_bytes())
    data[len(data) // 2] ^= 1
    seen.damaged = bytes(data)
    (p2 / STATE_FILE).write_bytes(data)
    yield from d.until_over("state damaged")


@pytest.fixture(scope="module")
def seen(deployment: Deployment, recoveries: None) -> Iterator[Seen]:
    """A run in which one device's disk was full, and another's state was damaged."""
    rehearsal = deployment.rehearsal
    rehearsal.config = replace(rehearsal.config, rounds=ROUNDS, quorum=0.5)
    disk, seen = deployment.state("p1"), Seen(deployment)
    disk.mkdir(parents=True)
    # Room for the old state and the new one, of 1 MB each.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    try:
        with rehearsal.up():
            deployment.play(losses(seen))
        yield seen
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_costs_the_device_that_round_and_its_state_stays(seen: Seen) -> None:
    assert seen.while_full == seen.before
    assert seen.names_while_full == {STATE_FILE, "lock", "photos"}
    assert seen.values("p1", "refused_replies") == {2: 1}
    assert list(seen.values("p1", "bytes_up_sent")) == [1, 3, 4]
    assert seen.deployment.saved("p1").round == ROUNDS
    log = seen.deployment.log("run")
    assert "round 2, client p1: refused: " in log
    assert "No space left on device" in log and "Free some space" in log


def test_a_damaged_state_is_kept_aside_and_the_device_starts_anew(seen: Seen) -> None:
    deployment, folder = seen.deployment, seen.deployment.state("p2")
    assert (folder / "damaged-1.safetensors").read_bytes() == seen.damaged
    assert not (folder / "damaged-2.safetensors").exists()
    log = deployment.log("supernode-p2-superexec")
    assert log.count("kept aside as damaged-1.safetensors") == 1 and "checksum is wrong" in log
    # A download of differences says nothing to it; it sends all its rows, and both agree again.
    sent = seen.values("p2", "bytes_up_sent")
    assert list(sent) == [1, 2, 3, 4] and seen.values("p2", "refused_replies") == {}
    assert sent[2] * 1.1 < sent[3] > sent[4] * 1.1
    assert deployment.saved("p2").round == ROUNDS


def test_rounds_go_on_without_them(seen: Seen) -> None:
    every = list(range(1, ROUNDS + 1))
    assert seen.deployment.rounds() == every
    assert list(seen.values("p3", "bytes_up_sent")) == every
    assert seen.values("p3", "refused_replies") == {}
    # Who could not train is evaluated with the model it has.
    losses = {client: seen.values(client, "loss") for client in ("p1", "p2", "p3")}
    assert all(list(values) == every for values in losses.values())
    assert losses["p1"][2] == losses["p1"][1]


def test_what_came_before_a_loss_is_as_if_nothing_happened(
    seen: Seen, undisturbed: Undisturbed
) -> None:
    after, (_, expected, _) = seen.deployment.metrics(), undisturbed
    for _, _, before in seen.deployment.recoveries.values():
        assert {key: after[key] for key in before} == before, "finished rounds changed"
    # Round 2 began with what round 1 left, for those that could train in it; which class is taken
    # for which is told of all together.
    of_others = [key for key in expected if key[0] == 2 and key[1] != "p1"]
    same = [key for key in expected if key[0] == 1]
    same += [key for key in of_others if not key[2].startswith(CONFUSION)]
    assert len(same) > 50
    assert {key: after.get(key) for key in same} == {key: expected[key] for key in same}
    # The loss itself is not made up for: a round untrained, what only that device knew forgotten.
    for key in ((2, "p1", "loss", None), (3, "p2", "loss", None)):
        assert after[key] != expected[key]
