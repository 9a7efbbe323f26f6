"""A server's state as it would be in one process, where nodes have no keys and nobody is late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strategies.rounds.identity import IDENTITY
from strategies.rounds.patience import PATIENCE


def as_in_one_process(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state but for whose key is whose, and who was silent or slow of late."""
    return {n: tensor for n, tensor in state.items() if not n.startswith((IDENTITY, PATIENCE))}
