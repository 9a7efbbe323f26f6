"""Late uploads: those that come after their round has ended, and what they count for then.

Where the server's state is a mean of models, a late upload moves it by what its client learnt, and
by less the older it is (Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation,
AISTATS 2022, algorithm 1). Where the state keeps what each person sent last, it takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.rounds.context import Sender
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State


@dataclass(frozen=True, eq=False)
class Late:
    """A late upload.

    Parameters
    ----------
    upload : as it came.
    round : in which its client was asked for it.
    age : rounds that have begun since.
    """

    upload: Bundle
    round: Round
    age: int

    @property
    def weight(self) -> float:
        """The weight of an upload of this age: ``1 / sqrt(1 + age)``."""
        return 1 / math.sqrt(1 + self.age)

    def moved(self, client: str, now: Bundle, model: Collection[str]) -> Bundle:
        """Return the upload as if its client had learnt the same from the download of now.

        Tensors of the `model` move as far from the download of now as they did from the one that
        the client had; the samples that they count for get the weight of their age.
        """
        before, parts = self.round.sent[client], dict(self.upload.tensors)
        for name in parts.keys() & set(model):
            parts[name] = _moved(parts[name], before.tensors.get(name), now.tensors.get(name))
        examples = max(1, round(self.upload.examples * self.weight))
        return replace(self.upload, examples=examples, tensors=parts)


def _moved(upload: Part, before: Part | None, now: Part | None) -> Part:
    if not all(isinstance(part, Floats) for part in (upload, before, now)):
        return upload
    assert isinstance(upload, Floats) and isinstance(before, Floats) and isinstance(now, Floats)
    if not upload.at == before.at == now.at:
        return upload
    return replace(upload, values=upload.values + (now.values - before.values))


def joined(
    half: ServerHalf,
    state: State,
    round: Round,
    usable: Mapping[str, Bundle],
    late: Mapping[str, Late],
) -> tuple[Round, dict[str, Bundle]]:
    """Return a round's uploads with the late ones, and the round as these were asked for it."""
    if not late:
        return round, dict(usable)
    clients = sorted(late)
    sent = {client: late[client].round.sent[client] for client in clients}
    uploads = {client: one.upload for client, one in late.items()}
    if not half.keeps_people:
        sent = dict(zip(clients, half.downloads(state, round, clients), strict=True))
        model = round.model.parameter_shapes.keys()
        uploads = {client: late[client].moved(client, sent[client], model) for client in clients}
    everybody = {**usable, **uploads}
    return replace(round, sent={**round.sent, **sent}), dict(sorted(everybody.items()))


def late_rows(number: int, late: Mapping[str, Late]) -> list[MetricRow]:
    """Return the age of each late upload that counts in a round."""
    return [MetricRow(number, client, None, "late_upload", one.age) for client, one in late.items()]


@dataclass
class PastRounds:
    """The rounds whose messages may still be answered, with what was sent to whom is awaited."""

    _rounds: dict[int, Round] = field(default_factory=dict)

    def note(self, round: Round, awaited: Mapping[int, Collection[str]]) -> None:
        """Note who is still awaited of which round, of the newest `round`, too."""
        rounds = self._rounds | {round.number: round}
        self._rounds = {
            number: replace(one, sent={c: one.sent[c] for c in awaited[number] if c in one.sent})
            for number, one in rounds.items()
            if awaited.get(number)
        }

    def sent_in(self, number: int, client: str) -> Round | None:
        """Return a round in which a client was sent what it is awaited for; None: there is none."""
        round = self._rounds.get(number)
        return round if round is not None and client in round.sent else None

    def add(self, round: Round) -> None:
        """Add a round of an earlier process, or whom it sent something to one that is there."""
        before = self._rounds.get(round.number, round)
        self._rounds[round.number] = replace(before, sent={**before.sent, **round.sent})

    def clear(self) -> None:
        """Forget all: the state that they began from was undone."""
        self._rounds = {}

    def of(
        self, number: int, client: str, now: Round, usable: int, known: Collection[str]
    ) -> Round:
        """Return the round that a late upload is of.

        Parameters
        ----------
        usable : the round of the client's last upload that was used; 0: none was.
        known : everybody who takes part.

        Raises MessageRefused if the round was undone, the client was forgotten meanwhile or now
        holds a model of another shape, or an upload of the same or a later round of its was used.
        """
        refuse = Sender(client, replace(now.turn, round=number)).refuse
        if client not in known:
            raise refuse("late upload", "one of a person who was forgotten", "a person of the run")
        if usable >= number:
            twice = "twice" if usable == number else f"after that of round {usable} was used"
            raise refuse("late upload", twice, "each once, in the order of rounds")
        past = self._rounds.get(number)
        if past is None or client not in past.sent:
            raise refuse("late upload", f"of round {number}, undone", "of one that counts")
        then, today = ({n: d.shape for n, d in r.travels(client)[0].items()} for r in (past, now))
        if then != today:
            raise refuse("late upload", f"a model of shapes {then}", f"{today}")
        return past
