"""Clients of one domain each; a domain that nobody would hold is refused by its name."""

import numpy as np
import pytest

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import DataError
from fedsub_data.partitions.partitions import counted_partition
from fedsub_papers.partitions.domains import DomainsOptions

NAMES = ("art", "cartoon", "photo", "sketch")


def federation() -> Federation:
    """Four domains of 40, 50, 60 and 70 samples; x is the domain's number."""
    card = Card("pictures", "objects", ("a", "b"), ("domain", "row"))
    clients = {}
    for number, name in enumerate(NAMES):
        rows = np.arange(40 + 10 * number)
        x = np.column_stack([np.full(len(rows), number), rows]).astype(np.float32)
        clients[name] = ClientData(name, x, rows % 2)
    return Federation(card, clients)


def test_each_client_has_one_domain_and_every_sample_is_placed() -> None:
    made = counted_partition(federation(), "domains", DomainsOptions(clients=6), 0)
    clients = made.federation.clients
    assert list(clients) == [
        *("art-000", "art-001", "cartoon-000", "cartoon-001", "photo-000", "sketch-000")
    ]
    for name, data in clients.items():
        assert set(data.x[:, 0]) == {NAMES.index(name.split("-")[0])}
    assert [len(data.y) for data in clients.values()] == [20, 20, 25, 25, 60, 70]
    rows = np.concatenate([clients[f"art-00{i}"].x[:, 1] for i in (0, 1)])
    assert sorted(rows) == list(range(40)) and made.counts["samples left out"] == 0
    assert made.counts["clients of art"] == 2 and made.counts["clients of sketch"] == 1


def test_clients_of_one_size_over_all_domains() -> None:
    made = counted_partition(federation(), "domains", DomainsOptions(8, samples=20), 0)
    assert {len(data.y) for data in made.federation.clients.values()} == {20}
    assert made.counts["samples left out"] == 220 - 160


def test_a_domain_without_people_is_refused_by_its_name() -> None:
    with pytest.raises(DataError, match=r"2 clients of 4 domains: nobody would hold photo, sketch"):
        counted_partition(federation(), "domains", DomainsOptions(clients=2), 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (DomainsOptions(8, samples=21), "'art' has 40 samples; expected 21 for each of its 2"),
        (DomainsOptions(4, samples=51), "'art' has 40 samples; expected 51 for each of its 1"),
        (DomainsOptions(84), "'art' has 40 samples; expected 2 for each of its 21"),
    ],
)
def test_a_domain_with_too_few_samples_is_refused(options: DomainsOptions, said: str) -> None:
    with pytest.raises(DataError, match=said):
        counted_partition(federation(), "domains", options, 0)
