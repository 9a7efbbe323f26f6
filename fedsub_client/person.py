"""Whose device a node is: its person, the person's data and what the device can hold of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedsub_core.capacity import Capacity, of_node, of_one, of_people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.sources import load_client
from fedsub_core.errors import DataError, RunError
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.models.names import is_place


def client_of(node: Mapping[str, Any], people: Sequence[str], source: str) -> str:
    """Return the id of a node's person.

    Parameters
    ----------
    node : the node's config.
    people : all clients of the run's data, for a simulated node, which is the n-th of them.
    source : where these data are.

    Raises
    ------
    DataError
        Where there is no such person.
    """
    if "client-id" in node:
        client = str(node["client-id"])
        if not is_client_id(client):
            raise DataError(f"node config: client-id {client!r}: expected {CLIENT_ID_RULE}")
        return client
    if "partition-id" not in node:
        raise DataError(
            "node config: no client-id; expected client-id and data, as in "
            '--node-config \'client-id="01" data="/data/mine"\''
        )
    partition = int(node["partition-id"])
    if partition >= len(people):
        raise DataError(
            f"{source}: {len(people)} clients, but this is node {partition + 1} of "
            f"{node.get('num-partitions')}: start as many SuperNodes as clients"
        )
    return people[partition]


def check_builder(node: Mapping[str, Any], client: str, model: str) -> None:
    """Refuse code that a server names as its model and this device's owner does not."""
    own = node.get("model", "nothing")
    if is_place(model) and own != model:
        raise RunError(
            f"client {client!r}: asked to build {model!r}, which is code of this device; "
            f"got {own!r} in its node config, expected model={model!r} there, if its owner "
            "trusts it"
        )


def read_data(source: str, client: str, simulated: bool) -> tuple[Card, ClientData]:
    """Return a person's data with the card beside them.

    Raises
    ------
    DataError
        Where they cannot be used.
    """
    try:
        return load_client(source, client)
    except DataError as error:
        # What an app fails with goes to the server: of a person's file no path, row or label.
        if simulated:
            raise
        raise DataError(
            f"client {client!r}: its data cannot be used; the device's own log says why"
        ) from error


def capacity_of(
    node: Mapping[str, Any], client: str, people: Sequence[str], card: Card, config: RunConfig
) -> Capacity:
    """Return what a device can hold: by its own word, the card's or the run's.

    `people` are all clients of a simulation; empty on a person's own device.
    """
    if (own := of_node(node, client)) is not None:
        return own
    of, seed, said = config.capacity_settings, config.seed, card.capacities
    if people:
        return of_people(of, seed, said, people)[client]
    return of_one(of, seed, said, client)
