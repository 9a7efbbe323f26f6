"""Whose key is whose: a device may take part as one client, and a client has one device.

A client id is what a device says of itself. What Flower's link has proved is that a node holds a
key, and the operator may have registered that key under a name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from fedsub_core.identifiers import is_client_id

#: Prefix of what is kept of it in the server's state.
IDENTITY = "identity."


@dataclass(frozen=True)
class NodeKey:
    """The key of a node, as far as the link knows it.

    Parameters
    ----------
    digest : its public key's SHA-256; "" in a simulation, which has none.
    name : by which the operator registered the key; may be "".
    activated : when the node was let in last; "" in a simulation.
    alive : a number that grows with each of the node's heartbeats; 0 in a simulation.
    """

    digest: str = ""
    name: str = ""
    activated: str = ""
    alive: float = 0.0

    def names(self) -> str:
        """Return the client that it was registered for, "" where its name is none's."""
        return self.name if is_client_id(self.name) else ""


@lru_cache(maxsize=2**14)  # a server looks at all of its nodes again and again
def key_digest(public_key: bytes) -> str:
    """Return a public key's SHA-256, hexadecimal; "" where there is none, as in a simulation."""
    return hashlib.sha256(public_key).hexdigest() if public_key else ""


@dataclass
class Identities:
    """Which key each client took part with.

    A key that was registered under a client's id is that client's, whoever came under this id
    before; any other belongs to the first client that it took part as, and the client to it. So a
    new key takes its device's place once it is registered under the client's id.
    """

    ties: dict[str, str] = field(default_factory=dict)

    def refusal(self, client: str, key: NodeKey) -> str:
        """Return why a node with `key` may not be `client`; "" if it may."""
        if named := key.names():
            if named == client:
                return ""
            return (
                f"it says it is client {client!r}, and its key was registered under the name "
                f"{named!r}; expected that as its client-id. Register it with --name {client}, or "
                "start the run with identity=open"
            )
        tied = self.ties.get(client, key.digest)
        if tied != key.digest:
            return (
                f"client {client!r} took part with the key {tied[:12]}, and this node's is "
                f"{key.digest[:12] or 'none'}. If the device has a new key, register that with "
                f"--name {client}; where nodes have no keys, start the run with identity=open"
            )
        others = [other for other, digest in self.ties.items() if digest == key.digest != ""]
        if others and client not in others:
            return (
                f"it says it is client {client!r}, and its key is that of client {others[0]!r}; "
                "expected the same client-id as before, or a key registered with "
                f"--name {client}"
            )
        return ""

    def tie(self, client: str, key: NodeKey) -> None:
        """Note that `client` took part with `key`."""
        if key.digest:
            self.ties[client] = key.digest

    def forget(self, client: str) -> None:
        """Know nothing of a client any more."""
        self.ties.pop(client, None)

    def tensors(self) -> dict[str, Tensor]:
        """Return the keys as plain named tensors, for the server's state; none without keys."""
        if not self.ties:
            return {}
        kept = json.dumps(self.ties, sort_keys=True)
        return {f"{IDENTITY}keys": torch.frombuffer(bytearray(kept.encode()), dtype=torch.uint8)}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Identities:
        """Return the keys in tensors: the inverse of :meth:`tensors`."""
        if f"{IDENTITY}keys" not in tensors:
            return cls()
        return cls(json.loads(bytes(tensors[f"{IDENTITY}keys"].tolist())))
