"""Which share of a model or encoder each device holds.

The first that speaks of a device decides: its node's config, the data card's ``capacities``, the
run's option of that name. Shares are drawn from the run's seed: `fixed` before the first round, in
equal parts where everybody is known; `dynamic` anew in each round (HeteroFL's dynamic setting, Diao
et al. 2021, section 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsub_core.config.capacities import EXPECTED, CapacitySettings, read_capacities
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.methods.card import MethodCard
from fedsub_core.options import suggestion
from fedsub_core.seeds import derive_seed

_PURPOSE = "capacity"


@dataclass(frozen=True)
class Capacity:
    """What one device can hold.

    Parameters
    ----------
    share : of the encoder or model that it can hold in every round, in (0, 1].
    drawn : shares of which it holds one drawn anew in each round; (): always `share`.
    """

    share: float = 1.0
    drawn: tuple[float, ...] = ()

    def at(self, seed: int, client: str, round: int) -> float:
        """Return the share that a client holds in a round, from 1; before that, in every round."""
        if not self.drawn or round < 1:
            return self.share
        return self.drawn[derive_seed(seed, client, round, _PURPOSE) % len(self.drawn)]


#: Of a device that holds everything, always.
WHOLE = Capacity()


def held_in(card: MethodCard, capacity: Capacity, seed: int, client: str, round: int) -> float:
    """Return the share of the model that a client holds in a round of a method.

    Where a device keeps a part that it trained from round to round, it is what it can hold in all;
    where all hold everything, it says whose numbers stand beside whose.
    """
    keeps = bool(card.weak.narrow) and not card.weak.resizes
    return capacity.share if keeps else capacity.at(seed, client, round)


def of_people(
    settings: CapacitySettings,
    seed: int,
    card: str | None,
    clients: Sequence[str],
    known: Sequence[str] = (),
) -> dict[str, Capacity]:
    """Return the capacity of each of `clients`, which are all there are.

    Clients in an order drawn from the seed take the shares in equal consecutive parts.

    Parameters
    ----------
    card : what the data card says, None where it says nothing.
    known : who may be named, where they are more than `clients`.

    Raises ConfigError if somebody else is named.
    """
    for key, text in (("data card: capacities", card), ("capacities", settings.capacities)):
        _check_named(key, text, known or clients)
    order = sorted(clients, key=lambda client: (derive_seed(seed, client, 0, _PURPOSE), client))
    place = {client: i for i, client in enumerate(order)}
    return {
        client: _said(settings, card, client, lambda n, i=place[client]: i * n // len(order))
        for client in clients
    }


def of_one(settings: CapacitySettings, seed: int, card: str | None, client: str) -> Capacity:
    """Return the capacity of a client that knows of no others: of shares it draws one alone."""
    return _said(settings, card, client, lambda n: derive_seed(seed, client, 0, _PURPOSE) % n)


def of_nobody(card: str | None) -> str | None:
    """Return the text of a data card that names no person: what another person's device sees."""
    return None if card is None or read_capacities(card)[1] else card


def of_node(node: Mapping[str, Any], client: str) -> Capacity | None:
    """Return the capacity in a device's own node config, None where there is none.

    Raises DataError if that is no share.
    """
    if "capacity" not in node:
        return None
    capacity = node["capacity"]
    if type(capacity) not in (int, float) or not 0 < capacity <= 1:
        raise DataError(
            f"client {client!r}: node config: capacity: got {capacity!r}, expected {EXPECTED}"
        )
    return Capacity(float(capacity))


def _said(settings: CapacitySettings, card: str | None, client: str, place: Any) -> Capacity:
    """Return what card, then run say of a client; `place` of how many shares it takes which."""
    for text in (card, settings.capacities):
        if text is None:
            continue
        shares, named = read_capacities(text)
        if client in named:
            return Capacity(named[client])
        if shares and settings.dynamic and len(set(shares)) > 1:
            return Capacity(min(shares), shares)
        if shares:
            return Capacity(shares[place(len(shares))])
    return WHOLE


def _check_named(key: str, text: str | None, clients: Sequence[str]) -> None:
    for client in () if text is None else read_capacities(text)[1]:
        if client not in clients:
            hint = suggestion(client, clients)
            raise ConfigError(
                f"{key}: got client {client!r}, expected one of {len(clients)} in the data.{hint}"
            )
