"""Capacities of devices in words: a run's options, and the texts of the option and a data card.

Which device has which follows in :mod:`fedsub_core.capacity`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.options import choice, read_share, text_option

EXPECTED = "a share in (0, 1]"
#: Of so many shares one can be drawn at most: a device says them all.
MOST_SHARES = 100


@dataclass(frozen=True)
class CapacitySettings:
    """What share of the model or encoder devices hold that do not say it themselves."""

    capacities: str = text_option(
        "1",
        "share of the model or encoder that devices hold, in (0, 1]: one share for all; several, "
        "such as 1/4,1/2,1, drawn with the seed; or client=share, with 1 for all others. A "
        "device's own setting, then the data card's, have priority",
    )
    capacity_mode: str = choice(
        "fixed",
        "dynamic",
        doc="when shares are drawn; fixed: once, equally many devices for each share; dynamic: "
        "again for each device in each round",
    )

    @property
    def dynamic(self) -> bool:
        """Whether shares are drawn anew in each round."""
        return self.capacity_mode == "dynamic"


#: Of a run in which all hold everything.
ALL_HOLD_ALL = CapacitySettings()


def check_capacities(text: str) -> None:
    """Raise a ConfigError unless `text` says capacities.

    That is one share for everybody, such as ``0.5``; several, ``1/4,1/2,1``, of which each client
    draws one; or ``anna=0.25,ben=0.5``, and the others are not spoken of.
    """
    read_capacities(text)


def read_capacities(text: str) -> tuple[tuple[float, ...], dict[str, float]]:
    """Return the shares to draw from, or, where there are none, whose share is which.

    Raises ConfigError; as :func:`check_capacities`.
    """
    said = []
    for i, part in enumerate(text.split(",")):
        client, equals, share = part.rpartition("=")
        client = client.strip()
        who = f"client {client!r}" if equals else f"share {i + 1} of {text!r}"
        if equals and not is_client_id(client):
            raise ConfigError(f"got {who}, expected {CLIENT_ID_RULE}")
        said.append((client, _share(share.strip(), who)))
    names = [client for client, _ in said]
    if any(names) and ("" in names or len(set(names)) < len(names)):
        raise ConfigError(
            f"got {text!r}, expected shares alone, or client=share for each client once"
        )
    if any(names):
        return (), dict(said)
    if len(said) > MOST_SHARES:
        raise ConfigError(f"got {len(said)} shares, expected {MOST_SHARES} at most")
    return tuple(share for _, share in said), {}


def sizes(text: str) -> tuple[float, ...]:
    """Return the shares that `text` says, such as ``1,1/2,1/4``, each once; () of an empty one.

    Raises ConfigError if one is no share, or comes twice.
    """
    found = tuple(
        _share(part.strip(), f"size {part.strip()!r}") for part in text.split(",") if text
    )
    if len(set(found)) < len(found):
        raise ConfigError(f"got {text!r}, expected each size once")
    return found


def _share(text: str, who: str) -> float:
    if (found := read_share(text)) is None:
        raise ConfigError(f"{who}: got {text!r}, expected {EXPECTED}")
    return found
