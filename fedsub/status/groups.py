"""Groups of people: whom a method put into one group, or into one cluster of a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fedsub.status.facts import Together
from fedsub_server.rundb_glance import Glance


def who_is_with_whom(look: Glance | None) -> list[Together]:
    """Return it as it stands after the last committed round; [] of a method that divides nobody."""
    if look is None:
        return []
    found = [Together("", _groups(look.rounds.get(look.round, {}).get("group", {})))]
    for label, clusters in sorted(look.clusters.items()):
        name = look.classes[label] if label < len(look.classes) else f"class {label}"
        found.append(Together(name, _groups(clusters)))
    return [one for one in found if one.groups]


def _groups(numbers: Mapping[str, float]) -> list[Sequence[str]]:
    """Return the people of each number that two or more have, most of them first."""

    def members() -> Iterator[tuple[str, ...]]:
        for number in set(numbers.values()):
            yield tuple(sorted(client for client, own in numbers.items() if own == number))

    return sorted((one for one in members() if len(one) > 1), key=lambda one: (-len(one), one))
