"""The answer of a device whose person leaves, in the handshake: whether its key may say so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fedsub_core.errors import cut
from fedsub_core.identifiers import is_client_id
from strategies.rounds.link import Link

if TYPE_CHECKING:
    from strategies.rounds.nodes import NodeRegistry

#: After how many seconds a node is asked again that may not say so.
AGAIN_SECONDS = 600.0


def take_leave(registry: NodeRegistry, node: int, record: Any, link: Link) -> tuple[str, float]:
    """Note that a node's person leaves; return why the node is turned away, and for how long, s."""
    client, departures = str(dict(record).get("client", "")), registry.departures
    key = registry.key(node)
    why = registry.identities.refusal(client, key) if registry.bound else ""
    if not (key.digest and registry.bound) and departures.nodes.get(client, node) != node:
        why = "another node took part under this id, and no key tells them apart"
    if not is_client_id(client) or why:
        return f"leave of {cut(client)!r}: {why or 'no client id'}", AGAIN_SECONDS
    registry.forgotten.add(node)
    departures.leave(link, client, node)
    return "its person left", math.inf
