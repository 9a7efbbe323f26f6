"""Devices that join, and the SuperLink's state that they join."""

from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fedsub.deploy.codes import JoinRequest, seal_of, token_of
from fedsub.deploy.invitations import new_invitations, write_batch
from fedsub_core.flower.nodes import LinkNodes
from fedsub_core.secure.roster import signature_of

from .raw_device.connection import public_bytes

URL = "https://fl.example.org:9092"


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def request(
    code: str, client: str, key: ec.EllipticCurvePrivateKey, pem: str | None = None
) -> JoinRequest:
    """What a device sends."""
    public = pem or public_bytes(key).decode()
    said = JoinRequest(client, public, token_of(code), seal_of(code, client, public))
    return replace(said, signature=signature_of(key, said.text))


def invite(folder: Path, *clients: str, days: float = 1, url: str = URL) -> list[str]:
    """Write invitations for these, "" for whoever has one; return the codes."""
    made = new_invitations(url, "a town", days, clients)
    named = list(made.values())
    # Several batches of one second are no test of ours.
    number = f"{len(list(folder.glob('*.csv')))}"
    write_batch(folder, [replace(one, number=number + one.number) for one in named])
    return list(made)


def link_nodes(folder: Path | None = None) -> LinkNodes:
    """The nodes of a SuperLink whose database is in a folder, which takes seconds, or in memory."""
    path = str(folder / "link.db") if folder else FLWR_IN_MEMORY_DB_NAME
    return LinkNodes(
        LinkStateFactory(path, NoOpFederationManager(), ObjectStoreFactory(path)).state
    )
