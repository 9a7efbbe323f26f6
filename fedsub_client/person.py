"""A node's person: whose device it is, its data, what it can hold, and its cohort of one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedsub_client.client import FedSubClient
from fedsub_client.cohort import Cohort
from fedsub_client.file_history import FileHistory
from fedsub_client.kept_state import state_from_kept
from fedsub_client.new_cohort import begun_anew, make_cohort
from fedsub_client.saved_state import Saved
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.capacity import held_in, of_node, of_one, of_people
from fedsub_core.config.named_code import ENCODER, check_deployed, code_named, places_in
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.sources import client_ids, load_client
from fedsub_core.data.standardise import Moments
from fedsub_core.encoders.module_names import NamedModule, code_of
from fedsub_core.encoders.names import NONE, resolve_encoder
from fedsub_core.errors import DataError, MessageRefused, RunError
from fedsub_core.extras import get
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.methods.table import method
from fedsub_core.pytorch import HERE

log = logging.getLogger("fedsub")


class Person:
    """A node's person: its data, its capacity, and its cohort of one.

    Parameters
    ----------
    node : the node's config; without ``client-id`` the node is one of a simulation.
    config : the run's.

    Raises DataError where there is no such person or the data cannot be used. Raises MessageRefused
    where the run needs PyTorch, which the device does not have.
    """

    def __init__(self, node: Mapping[str, Any], config: RunConfig) -> None:
        self.config = config
        source = str(node.get("data", config.data))
        self.simulated = "client-id" not in node
        self.people = client_ids(source) if self.simulated else []
        self.client = _client_of(node, self.people, source)
        if not self.simulated:
            _check_code(node, self.client, config)
        _check_pytorch(self.client, config)
        self.card, self.data = _read_data(source, self.client, self.simulated)
        shares, seed, stated = config.capacity_settings, config.seed, self.card.capacities
        if (own := of_node(node, self.client)) is not None:
            self.capacity = own
        elif self.simulated:
            self.capacity = of_people(shares, seed, stated, self.people)[self.client]
        else:
            self.capacity = of_one(shares, seed, stated, self.client)
        #: The file's last split, and by what; of it, by method: its last cohort, and by what.
        self._split: tuple[object, SplitClient] | None = None
        self._cohorts: dict[str, tuple[object, Cohort]] = {}

    def new_cohort(self) -> Cohort:
        """Return the cohort as of the file alone: what is saved may be of other settings."""
        new = FileHistory.first(self.data, self.card)
        return self.numpy_client(self._fullest, new, None, 0).cohort

    def moments(self, part: str) -> Moments | None:
        """Return sums over the person's samples; :meth:`ScaledData.shared_moments`."""
        return self.new_cohort().data.shared_moments(0, part)

    @property
    def _fullest(self) -> str:
        """The method of whose runs a device says most of itself: what it says is for all of them.

        That is one that trains on features of an encoder, where there is one.
        """
        own = self.card
        shape = own.shape_of(self.data.x)
        for name in self.config.methods:
            card, encodes = method(name), method(name).training.encodes
            if card.trains and resolve_encoder(self.config.encoder, encodes, shape) != NONE:
                return name
        return self.config.method

    def file(self, saved: Saved | None) -> FileHistory:
        """Return the file's history, once it is noticed whether it grew since the last round."""
        if saved is None:
            return FileHistory.first(self.data, self.card)
        continued = saved.file.continued(self.data, self.card)
        if continued is None:
            log.warning(
                "client %s: its file no longer begins with the %d samples it had; split anew, "
                "so what was trained on may be tested now",
                self.client,
                saved.file.sizes[-1],
            )
            return FileHistory.first(self.data, self.card)
        if continued is not saved.file:
            log.info("client %s: %d samples, %d before", self.client, *continued.sizes[:-3:-1])
        return continued

    def numpy_client(
        self, name: str, file: FileHistory, saved: Saved | None, round: int
    ) -> FedSubClient:
        """Return this device with a method's state, holding what it can in a round."""
        settings = self.config.device_settings(name)
        how = settings.split, file.sizes
        if self._split is None or self._split[0] != how:
            self._split = how, split_client(self.data, self.card, *how, self.capacity)
            self._cohorts.clear()
        share = held_in(method(name), self.capacity, settings.seed, self.client, round)
        if name not in self._cohorts or self._cohorts[name][0] != share:
            parts = self._split[1].holding(share)
            self._cohorts[name] = share, make_cohort(settings, self.card, [parts])
        cohort = begun_anew(self._cohorts[name][1])
        if saved is not None and saved.state and cohort.fits(saved.state):
            cohort.load_states([saved.state])
        elif saved is not None and saved.state and (self.knows_more(saved) or not saved.round):
            log.info("client %s: goes on with what it kept of fewer classes or before", self.client)
            cohort.load_states([state_from_kept(cohort, saved.state)])
        elif saved is not None and self.outgrown(saved, cohort):
            log.warning(
                "client %s: its state is not of a device of capacity %g; it begins anew",
                self.client,
                self.capacity.share,
            )
        elif not self.simulated:
            cohort.state = cohort.state | cohort.learner.own_secrets()
        return FedSubClient(cohort)

    @property
    def cohorts(self) -> list[Cohort]:
        """The cohorts of one that were made for the methods' rounds."""
        return [cohort for _, cohort in self._cohorts.values()]

    def forget_cohorts(self) -> None:
        """Free the cohorts and the split, which are made anew of the file."""
        self._split = None
        self._cohorts.clear()

    def outgrown(self, saved: Saved, cohort: Cohort) -> bool:
        """Return whether a state is, unlike the run says, of a device of another capacity."""
        other = bool(saved.state) and not self.capacity.drawn and not cohort.fits(saved.state)
        return other and bool(saved.round) and not self.knows_more(saved)

    def knows_more(self, saved: Saved) -> bool:
        """Whether the person's card has gained classes since a state was saved."""
        had = () if saved.model is None else saved.model.card.classes
        return 0 < len(had) < len(self.card.classes) and had == self.card.classes[: len(had)]


def _client_of(node: Mapping[str, Any], people: Sequence[str], source: str) -> str:
    """Return the id of a node's person.

    Parameters
    ----------
    node : the node's config.
    people : all clients of the run's data, for a simulated node, which is the n-th of them.
    source : where these data are.

    Raises DataError where there is no such person.
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


def _check_code(node: Mapping[str, Any], client: str, config: RunConfig) -> None:
    """Refuse code that a server names and this device's owner does not; :func:`encoder_here`."""
    check_deployed(config)
    for option, asked in code_named(config).items():
        own = str(node.get(option, "nothing"))
        known = places_in(option, own) if own != "nothing" else ()
        if option != ENCODER and not set(places_in(option, asked)) <= set(known):
            raise RunError(
                f"client {client!r}: asked for {option} {asked!r}, which is code of this device; "
                f"got {own!r} in its node config, expected {option}={asked!r} there, if its owner "
                "trusts it"
            )


def _check_pytorch(client: str, config: RunConfig) -> None:
    """Refuse a run that trains models where there is no PyTorch."""
    if HERE:
        return
    needing = [f"{name}, which trains a model" for name in config.methods if method(name).trains]
    if NamedModule.parse(config.encoder) is not None:
        needing.append(f"encoder {config.encoder}, which is a module")
    if needing:
        expected = "one that solves, such as fedsub-ridge: this device has no PyTorch. "
        expected += f"Run there: {get('torch')}"
        raise MessageRefused(client, 0, "method", needing[0], expected)


def encoder_here(node: Mapping[str, Any], encoder: str) -> str:
    """Return a run's encoder with its files where a person's device has them.

    The digest stays the run's: the paths may be others, the files may not. No file is read.

    Raises RunError where a server names code as its encoder and this device's owner does not.
    """
    named, given = NamedModule.parse(encoder), str(node.get("encoder", ""))
    own = NamedModule.parse(given)
    trusted = own is None and not code_of(encoder)  # an installed package's
    if "client-id" not in node or named is None or trusted:
        return encoder
    if own is None or not (named.digest or own.given == named.given):
        raise RunError(
            f"client {node['client-id']!r}: asked to encode by {named.given!r}, which is code of "
            f"this device; got {given or 'nothing'!r} in its node config, expected "
            f"encoder={named.given!r} there, if its owner trusts it"
        )
    return replace(own, digest=named.digest).text


def _read_data(source: str, client: str, simulated: bool) -> tuple[Card, ClientData]:
    """Return a person's data with the card beside them.

    Raises DataError where they cannot be used.
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
