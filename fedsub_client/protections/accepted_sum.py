"""A person's part in a round's secure sum: what is said of it, and the masks on an upload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedsub_core.config.settings import NoiseSettings, SecureSettings
from fedsub_core.errors import DataError, MessageRefused
from fedsub_core.secure import uploads
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import SECURE, Plan
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.transcript import Origin, beside_download, digest
from fedsub_core.wire import exchange
from fedsub_core.wire.codec import Address, compose_upload
from fedsub_core.wire.exchange import Content, Instructions
from fedsub_core.wire.lazy_message import LazyMessage
from fedsub_core.wire.v2 import exchange_pb2 as pb


def least_of(node: Mapping[str, Any], client: str) -> int:
    """Return of how many people at least a device's owner wants a sum to be; 0: as the run says.

    Raises DataError if the node config has no such number: it would protect nobody.
    """
    least = node.get("secure-least", 0)
    if type(least) is not int or least < 0:
        raise DataError(
            f"client {client!r}: node config: secure-least: got {least!r}, expected a whole number"
        )
    return least


#: The configuration of a run in one process, which all have of the same hand.
OF_ONE_PROCESS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class AcceptedSum:
    """A person, and the plan of a sum that it accepted.

    Parameters
    ----------
    levels : by which its vector is rounded.
    told_hash : a hash of what it was told beside its download.
    """

    person: Participant
    plan: Plan
    levels: Levels
    told_hash: str

    def made(self, origin: Origin) -> Origin:
        """Return a vector's origin, made of the download and of what came beside it."""
        return replace(origin, made_of=digest([self.told_hash, origin.made_of]))

    def masked(self, payload: bytes | LazyMessage, origin: Origin) -> LazyMessage:
        """Return an upload's vector under masks.

        Parameters
        ----------
        origin : :meth:`Participant.masked`'s.

        Raises MessageRefused if another vector was sent before; if this one is in a sum that was
        opened of others; or if there is none that may be added up.
        """
        data = payload.to_bytes() if isinstance(payload, LazyMessage) else payload
        address = Address(self.person.client, self.plan.name.round)
        vector = _vector(data)
        if not len(vector):
            got, expected = "numbers that may not be added up", "what was counted of this device"
            raise MessageRefused(address.client, address.round, "secure sum", got, expected)
        under = self.person.masked(vector, self.plan.name, origin)
        return compose_upload(uploads.in_bundle(under), address, uploads.declared_of(len(under)))


def accepted(
    person: Participant,
    content: Content,
    told: Instructions,
    secure: SecureSettings,
    noise: NoiseSettings,
    config: Mapping[str, Any] = OF_ONE_PROCESS,
) -> AcceptedSum:
    """Return a person's part in a sum, once it accepts the plan that came with a download.

    Parameters
    ----------
    config : the run's configuration, as it came.

    Raises MessageRefused if the person cannot go by it, or it is of another run than the download
    beside it; if people weigh differently in it, where what one adds is to be bounded; or if
    numbers are rounded by other levels than sums over its people can bear.
    """
    reader = Reader(person.client, told.turn.round)
    plan = reader.plan(content[SECURE])
    if (plan.name.run, plan.name.method) != (told.run, told.method):
        # By the run it is remembered with whom a round's sum was opened.
        got = f"{plan.name.method!r} of run {plan.name.run!r}"
        raise reader.refuse("secure sum", got, f"{told.method!r} of run {told.run!r}")
    if noise.dp_noise and plan.weight != 1:
        raise reader.refuse("secure sum: weight", plan.weight, "1, of everybody, with dp-noise")
    person.accept(plan)
    try:
        levels = Levels.of_people(person.people, plan.weight, secure.secure_range)
    except ValueError as error:
        raise reader.refuse("secure sum: weight", plan.weight, error) from None
    if plan.each != levels.each:
        # By coarser ones what most people add would be rounded to zeros.
        expected = f"{levels.each} among {person.people} people of weight {plan.weight}"
        raise reader.refuse("secure sum: each", plan.each, expected)
    levels = replace(levels, longest=noise.longest)
    return AcceptedSum(person, plan, levels, beside_download(content[exchange.TURN], config))


def holds_tensors(payload: bytes) -> bool:
    """Return whether an upload of this device's holds more than its header."""
    return bool(pb.Bundle.FromString(payload).tensors)


def rounded_again(
    payload: bytes,
    before: tuple[int, int] | None,
    levels: Levels,
    of: Address,
    again: Callable[[Words, Levels], Words],
) -> bytes:
    """Return a vector that was saved, before it was masked, by the levels of this session's sum.

    A round that is repeated may be of other people, and each bears other levels: two people's
    vectors of different levels have no sum.

    Parameters
    ----------
    before : the saved vector's weight and each; None where what was saved is an upload.
    again : makes the vector that is to be sent of the saved one, and the levels of that.

    Raises MessageRefused if what was saved is no vector.
    """
    if before is None:
        got, expected = "a round that was answered with an upload itself", "one answered in sums"
        raise MessageRefused(of.client, of.round, "secure sum", got, expected)
    vector = again(_vector(payload), Levels(levels.range, *before))
    return compose_upload(
        uploads.in_bundle(vector), of, uploads.declared_of(len(vector))
    ).to_bytes()


def vector_in(payload: bytes) -> Words | None:
    """Return the vector in an upload that was saved before it was masked; None: it holds none."""
    return _vector(payload) if holds_tensors(payload) else None


def _vector(payload: bytes) -> Words:
    """Return the vector that an upload of this device's carries."""
    (sent,) = pb.Bundle.FromString(payload).tensors
    if not sent.values:
        return uploads.NO_VECTOR
    return np.frombuffer(sent.values, "<u4").astype(np.uint32, copy=False)
