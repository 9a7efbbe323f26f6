"""Late uploads and pauses over a server's restart: what a run keeps of them, and how it goes on.

A message dies with the run of Flower's that it belongs to. But a device answers a round that it
did from its state. So whoever is awaited is asked for the same round again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass, field, replace

import torch
from flwr.app import MessageType
from torch import Tensor

from fedsub_core.errors import MessageRefused
from fedsub_core.pytorch import as_numpy
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.codec import Address, decode_download, encode_download
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.exchange import Instructions
from fedsub_core.wire.in_process_message import content_of
from strategies.rounds.connection import Connection
from strategies.rounds.round import Round

log = logging.getLogger("fedsub")

#: Prefix of what is kept of it in the server's state.
LATE = "late."
FACTS, SENT = f"{LATE}facts", f"{LATE}sent."
#: What a download is written to that several people may have been sent.
NOBODY = Address("", 0)


@dataclass(frozen=True)
class Awaited:
    """An upload that is awaited.

    Parameters
    ----------
    round : in which its client was asked for it.
    expires : until when it counts, s since 1970.
    sent : the name of what the client was sent.
    """

    round: int
    expires: float
    sent: str


@dataclass
class UploadTimes:
    """Whose upload may come late, and who has a pause.

    Parameters
    ----------
    awaited : by client.
    sent : written downloads, by name; many clients may have been sent one and the same.
    used : when each client's last upload was used, s since 1970.
    again : clients whom an earlier process asked, and this one has not asked again.
    """

    awaited: dict[str, Awaited] = field(default_factory=dict)
    sent: dict[str, Tensor] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)

    def paused(self, now: float, hours: float) -> list[str]:
        """Return the clients with a pause of so many hours; a clock that went back ends pauses."""
        return [c for c, moment in self.used.items() if 0 <= now - moment < 3600 * hours]

    def note_used(self, clients: Collection[str], now: float, hours: float) -> None:
        """Note that uploads of clients were used, and forget whose pause is over."""
        used = self.used | dict.fromkeys(clients, now)
        self.used = {c: moment for c, moment in used.items() if 0 <= now - moment < 3600 * hours}

    def note(self, connection: Connection) -> None:
        """Note whose upload may come late: of each client the newest that it was asked for."""
        transport, clock, past = connection.transport, connection.link.clock, connection.past
        self.again -= set(transport.asked)
        found = {client: self.awaited[client] for client in self.again}
        written = dict[int, str]()
        for number, client, expires in sorted(transport.delivery.overdue.until()):
            used = transport.usable.get(client, 0) >= number  # one that came later counted
            if used or (round := past.sent_in(number, client)) is None:
                continue
            bundle = round.sent[client]
            if id(bundle) not in written:
                written[id(bundle)] = self._write(bundle, round, client)
            until = expires + clock.wall - clock.now
            found[client] = Awaited(number, until, written[id(bundle)])
        self.awaited = {c: one for c, one in found.items() if one.expires > clock.wall}
        self.again &= self.awaited.keys()
        self._keep_needed()

    def _keep_needed(self) -> None:
        """Forget downloads of which no upload is awaited."""
        needed = {one.sent for one in self.awaited.values()}
        self.sent = {name: tensor for name, tensor in self.sent.items() if name in needed}

    def _write(self, bundle: Bundle, round: Round, client: str) -> str:
        data = encode_download(bundle, NOBODY, round.received_by(client))
        name = hashlib.blake2b(data, digest_size=8).hexdigest()
        self.sent.setdefault(name, torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return name

    def read(self, client: str, round: Round) -> Bundle:
        """Return the download that an earlier round sent; raises as :func:`decode_download`."""
        data = bytes(as_numpy(self.sent[self.awaited[client].sent]))
        return decode_download(data, Envelope("", 0, round.received_by(client), largest=math.inf))

    def forget(self, client: str) -> None:
        """Forget a client."""
        self.awaited.pop(client, None)
        self._keep_needed()
        self.used.pop(client, None)
        self.again.discard(client)

    def tensors(self) -> dict[str, Tensor]:
        """Return all as plain named tensors, for the server's state; none of nobody."""
        if not (self.awaited or self.used):
            return {}
        facts = {"awaited": {c: astuple(one) for c, one in self.awaited.items()}, "used": self.used}
        kept = bytearray(json.dumps(facts, sort_keys=True).encode())
        sent = {f"{SENT}{name}": tensor for name, tensor in self.sent.items()}
        return {FACTS: torch.frombuffer(kept, dtype=torch.uint8), **sent}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> UploadTimes:
        """Return the times in tensors: the inverse of :meth:`tensors`."""
        if FACTS not in tensors:
            return cls()
        facts = json.loads(bytes(as_numpy(tensors[FACTS])))
        awaited = {client: Awaited(*one) for client, one in facts["awaited"].items()}
        sent = {n.removeprefix(SENT): t for n, t in tensors.items() if n.startswith(SENT)}
        return cls(awaited, sent, facts["used"], set(awaited))


def ask_again(
    times: UploadTimes,
    connection: Connection,
    round_of: Callable[[int], Round],
    instructions: Callable[[Turn], Instructions],
) -> frozenset[str]:
    """Ask people who are there again for what an earlier process awaited; return their ids.

    They are not asked for the round that goes on. Were too few left for it, nobody is: they train
    on that one.
    """
    population, link, transport = connection.population, connection.link, connection.transport
    there, rounds = population.registry.online - population.left_out, connection.rounds
    back = sorted(times.again & there)
    quorum = math.ceil(rounds.quorum * (rounds.clients_per_round or len(there)))
    least = population.registry.departures.least(rounds.min_clients)
    if len(there) - len(back) < max(quorum, least):
        return frozenset()
    delivery, now, asked = transport.delivery, link.clock.now, set[str]()
    asked_in = {number: round_of(number) for number in {times.awaited[c].round for c in back}}
    for client in back:
        one = times.awaited[client]
        left = one.expires - link.clock.wall
        round = asked_in[one.round]
        times.again.discard(client)
        try:
            bundle = times.read(client, round)
        except MessageRefused as error:  # its device holds a model of another shape now
            log.warning("client %s: is not asked again for round %d: %s", client, one.round, error)
            continue
        if left <= 0:
            continue
        round = replace(round, sent={client: bundle})
        said = {client: instructions(round.turn)}
        (message,) = transport.write(
            MessageType.TRAIN,
            round,
            said,
            [bundle],
            population.nodes,
            rounds.round_timeout,
            link,
        )
        transport.traffic.add_message(client, "bytes_down", content_of(message))
        if link.push([message]) == [None]:
            connection.past.add(round)
            delivery.overdue.await_again(client, message, now, now + left, delivery.pace)
            asked.add(client)
        else:
            times.again.add(client)
    return frozenset(asked)
