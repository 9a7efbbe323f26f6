"""A server's state as it would be in one process, where nodes have no keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strategies.rounds.identity import IDENTITY


def without_keys(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state but for whose key is whose, which a deployment alone knows."""
    return {name: tensor for name, tensor in state.items() if not name.startswith(IDENTITY)}
