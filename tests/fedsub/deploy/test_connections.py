"""Which connections end: those that only hold, and the oldest of strangers for newer ones."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import count

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256

from fedsub.deploy.callers import Signed, UsedSignatures
from fedsub.deploy.connections import (
    CONNECTIONS_EACH,
    MOST_REFUSED,
    PROOF_SECONDS,
    STALL_SECONDS,
    UNPROVEN_EACH,
    Connection,
    Connections,
    address_of,
    most_connections,
)
from fedsub_core.flower.superlink import STAMP_SECONDS


class Town:
    """Connections, each with a number, whose time is set by hand."""

    def __init__(self, most: int) -> None:
        self.now, self.ended, self._numbers = 0.0, list[int](), count()
        self.all = Connections(most, lambda: self.now)

    def add(self, host: str = "192.0.2.1") -> Connection | None:
        number = next(self._numbers)
        return self.all.add(host, lambda: self.ended.append(number))

    def made(self, host: str = "192.0.2.1") -> Connection:
        made = self.add(host)
        assert made is not None
        return made


@pytest.fixture
def town() -> Iterator[Town]:
    yield Town(10_000)


def test_a_strangers_oldest_makes_room_for_its_newest(town: Town) -> None:
    town.all.prove(town.made(), b"anna")
    other = town.made("192.0.2.9")
    for _ in range(UNPROVEN_EACH + 3):
        town.made()
    # The one that anna's key has proven does not count, nor does another address.
    assert town.ended == [2, 3, 4] and other.key is None


def test_where_all_places_are_taken_who_has_most_gives_one_up() -> None:
    town = Town(6)
    for host in ("192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"):
        town.made(host)
    for key in (b"anna", b"ben"):
        town.all.prove(town.made("192.0.2.3"), key)
    town.made("192.0.2.4")
    assert town.ended == [1] and len(town.all) == 6


def test_devices_give_up_no_place_to_strangers() -> None:
    town = Town(4)
    for key in (b"a", b"b", b"c", b"d"):
        town.all.prove(town.made(), key)
    assert town.add("192.0.2.7") is None and town.ended == []


def test_a_key_has_so_many(town: Town) -> None:
    for _ in range(CONNECTIONS_EACH + 2):
        town.all.prove(town.made(), b"anna")
    assert town.ended == [0, 1]


def test_who_only_holds_is_ended(town: Town) -> None:
    stranger, idle, half, slow, full = (town.made() for _ in range(5))
    for one in (idle, half, slow, full):
        town.all.prove(one, b"anna")
    town.now, full.full_since = 1.0, 1.0
    with town.all.awaiting(half), town.all.awaiting(slow):
        town.now += STALL_SECONDS
        slow.heard = town.now
        town.now += 1.0
        assert town.now > PROOF_SECONDS
        town.all.end_idle()
    assert town.ended == [0, 2, 4] and stranger.key is None
    assert not half.incomplete and not slow.incomplete


def test_who_is_only_refused_comes_anew(town: Town) -> None:
    stranger, anna = town.made(), town.made()
    town.all.prove(anna, b"anna")
    for _ in range(MOST_REFUSED):
        town.all.refused(stranger)
        town.all.refused(anna)
    assert town.ended == [0]


@pytest.mark.parametrize(
    ("host", "whose"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_an_ipv6_network_is_one_address(host: str, whose: str) -> None:
    assert address_of(host) == whose


def test_a_process_raises_how_many_it_may_have() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1000:
        pytest.skip("this machine lets a process have under 1000 descriptors")
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (400, 1000))\n"
        "from fedsub.deploy.connections import most_connections; print(most_connections())\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [str((1000 - 300) // 3), "(1000, 1000)"]
    assert most_connections() >= 1


def test_a_signature_is_used_once_also_as_its_twin() -> None:
    now = [0.0]
    used, key = UsedSignatures(lambda: now[0]), ec.generate_private_key(ec.SECP384R1())
    order = 2**384 - 0x389CB27E0BC8D220A7E5F24DB74F58851313E695333AD68D
    signature = key.sign(b"now", ec.ECDSA(SHA256()))
    r, s = decode_dss_signature(signature)
    twin = encode_dss_signature(r, order - s)
    key.public_key().verify(twin, b"now", ec.ECDSA(SHA256()))
    assert used.use(Signed(b"anna", "now", signature))
    for again in (signature, twin):
        assert not used.use(Signed(b"anna", "now", again))
    # Two calls in one microsecond differ in this number.
    assert used.use(Signed(b"anna", "now", key.sign(b"now", ec.ECDSA(SHA256()))))
    # Flower no longer takes the time that was signed, and so it need not be remembered.
    now[0] = STAMP_SECONDS + 1.0
    assert used.use(Signed(b"anna", "now", signature))
