"""What holds for every kind of partition holds for the papers'."""

import random as draws
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError
from fedsub_data.partitions.partitions import HOUSE, PARTITIONS, counted_partition
from fedsub_papers.partitions.balanced import BalancedOptions
from fedsub_papers.partitions.domains import DomainsOptions
from fedsub_papers.partitions.hard_clusters import HardClustersOptions
from fedsub_papers.tests.again import again
from tests.fedsub_data.partitions import test_partitions as house

#: Options, and how many clients of one size there are; 0: any number of samples is left out.
KINDS: dict[str, tuple[Any, int]] = {
    "dirichlet-balanced": (BalancedOptions(6, 0.3), 6),
    "hard-clusters": (HardClustersOptions(6, base=5, mu=2.0), 0),
    "domains": (DomainsOptions(9), 1),
}
#: What divides a graph divides nothing else: it has tests of its own.
OURS = [kind for kind in PARTITIONS if kind not in HOUSE]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(KINDS)), st.integers(0, 2**31), st.booleans(), st.randoms())
def test_samples_stay_whole_and_come_once_whatever_the_order_of_clients(
    kind: str, seed: int, timed: bool, random: draws.Random
) -> None:
    options, divisor = KINDS[kind]
    house.check_samples_stay_whole((kind, options), seed, timed, random, True, divisor)


test_the_card_is_kept_but_for_the_name = again(
    house.test_the_card_is_kept_but_for_the_name,
    ("kind", "options"),
    [(kind, options) for kind, (options, _) in KINDS.items()],
)
test_pooled_clients_are_numbered_and_differ_by_seed = again(
    house.test_pooled_clients_are_numbered_and_differ_by_seed,
    ("kind", "options"),
    [(kind, options) for kind, (options, _) in KINDS.items() if kind != "domains"],
)
test_options_are_described_for_the_command_line = again(
    house.test_options_are_described_for_the_command_line, "kind", OURS
)


def test_groups_that_share_a_class_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="hard-clusters: groups: got '0;1', expected numbers of classes with"
    ):
        counted_partition(house.people(), "hard-clusters", HardClustersOptions(groups="0;1"), 0)


@pytest.mark.parametrize("name", ["wisdm", "wesad"])
@pytest.mark.parametrize("kind", KINDS)
def test_real_people_can_be_split_both_ways(
    real_data: Path, tmp_path: Path, name: str, kind: str
) -> None:
    options = DomainsOptions(40) if kind == "domains" else PARTITIONS[kind].options()
    house.check_both_ways(read_federation(real_data / name), kind, [options], tmp_path)
