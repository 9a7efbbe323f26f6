"""Facts of a run, as its databases hold them and its server said last: of all, and of people."""

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from platform import node as this_host
from statistics import median
from typing import Any

from fedsub.status.facts import Person
from fedsub.status.machine import sees_processes
from fedsub_core.config.run_config import RunConfig
from fedsub_core.metric_names import OWN_HEADS
from fedsub_server.ending import read_ended
from fedsub_server.forgotten import is_alias
from fedsub_server.live_file import BEAT_SECONDS
from fedsub_server.rundb_glance import Glance
from fedsub_server.twins import LOCAL, twin_of

#: After how many beats without a word a server on another machine is taken for gone.
BEATS = 4


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run that lie in its folder.

    Parameters
    ----------
    looks : by method, of those that have begun.
    method : whose rounds go on, or went on last.
    live : what the server said last; empty where it said nothing.
    process : that has a database open.
    """

    folder: Path
    config: RunConfig
    looks: Mapping[str, Glance]
    method: str
    live: Mapping[str, Any]
    process: int | None

    @property
    def look(self) -> Glance | None:
        """What the method's database says."""
        return self.looks.get(self.method)

    @property
    def twin(self) -> tuple[str, Mapping[str, float]]:
        """The method's twin and everybody's score by it; "" where there is none.

        Of a target, of which there are no own heads, scores are mean absolute errors.
        """
        local = self.looks.get(LOCAL)
        looks = [look for look in (local, self.look) if look is not None]
        trained = {} if local is None else local.newest("macro_f1") or local.newest("mae")
        name, numbers = twin_of(trained, *(look.newest(OWN_HEADS[0]) for look in looks))
        return ("", {}) if name == self.method else (name, numbers)

    @property
    def round(self) -> int:
        """The round that goes on or comes next; 0 before the first."""
        done = self.look.round if self.look else 0
        after = min(done + 1, self.config.rounds) if done else 0
        return max(int(number(self.live, "round", 0)), after)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the run's end, by the pace of its last rounds; None without one."""
        if self.look is None or not self.look.seconds:
            return None
        left = 0
        for name in self.config.methods:
            done = self.looks[name].round if name in self.looks else 0
            left += 0 if self.is_whole(name) else self.config.rounds - done
        return left * median(self.look.seconds)

    @property
    def done(self) -> bool:
        """Whether all rounds of all methods are committed."""
        wanted = self.config.methods
        return all(n in self.looks and self.is_whole(n) for n in wanted)

    def is_whole(self, name: str) -> bool:
        """Return whether a method that has begun runs no more rounds."""
        return self.looks[name].round >= self.config.rounds or bool(read_ended(self.folder / name))

    @property
    def elsewhere(self) -> bool:
        """Whether the server that spoke last is another machine."""
        return bool(self.live) and self.live.get("host") != this_host()

    @property
    def state(self) -> str:
        """What :class:`Status` calls it."""
        if self.done:
            return "finished"
        if self.elsewhere and not self.live.get("ended"):
            # Nothing here can prove that it lives; that it speaks still, can.
            silent = time.time() - number(self.live, "written", 0.0)
            return "elsewhere" if silent < BEATS * BEAT_SECONDS else "stopped"
        if self.process is not None:
            return "going on"
        if not self.looks and not self.live:
            return "not begun"
        if sees_processes():
            return "stopped"
        written = number(self.live, "written", 0.0)
        return "going on" if time.time() - written < BEATS * BEAT_SECONDS else "stopped"


def texts(found: object) -> tuple[str, ...]:
    """Return a fact that is a list as texts; () where it is none."""
    return tuple(str(one) for one in found) if isinstance(found, list) else ()


def number(facts: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return a fact as a number: `default` where it is none, as of another version's server."""
    with suppress(TypeError, ValueError):
        found = default if facts.get(key) is None else float(facts[key])
        return found if found is None or math.isfinite(found) else default
    return default


def whole(facts: Mapping[str, Any], key: str) -> int | None:
    """Return a fact that is a whole number; Flower's ids of nodes are too large for a float."""
    found = facts.get(key)
    return found if isinstance(found, int) else None


#: Metrics of which a person's last value counts.
_NEWEST = ("capacity", "bytes_up_sent", "bytes_down_sent", "macro_f1", "mae")
#: A look at the database of a method that has not begun.
_NOTHING = Glance({}, "", 0, (), 0.0)


def people_of(run: RunFacts, current: bool) -> list[Person]:
    """Return everybody's state and numbers, by the server's last words and the database.

    `current`: whether the server still speaks.
    """
    look = run.look or _NOTHING
    told = run.live.get("people")
    said: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    # Who took part in a method that trained before may be away since.
    before = [metrics for one in run.looks.values() for metrics in one.rounds.values()]
    known = {name for metrics in before for each in metrics.values() for name in each}
    usable = look.last("bytes_up_sent")
    newest = {name: look.newest(name) for name in _NEWEST}
    missing, refusals = look.sums("missing_replies"), look.sums("refused_replies")
    waited = set(texts(run.live.get("waited_for"))) if current else set[str]()
    last = look.rounds.get(look.round, {})
    _, alone = run.twin
    people = []
    for client in sorted(known | said.keys()):
        own = said.get(client)
        own = own if isinstance(own, Mapping) else {}
        refused = own.get("refused")
        why = None
        if isinstance(refused, list) and len(refused) == 2:
            # The error itself begins with who, and mostly with when.
            error = str(refused[1]).removeprefix(f"client {client!r}, round {refused[0]}: ")
            why = f"round {refused[0]}: {error}"
        until = whole(own, "rests_until")
        # People of a simulation say none: they are the run's process.
        version = own.get("version") if own else look.version
        person = Person(
            client=client,
            state="idle",
            node=whole(own, "node"),
            since=str(own["since"]) if current and own.get("since") else None,
            version=str(version) if version else None,
            capacity=number(own, "capacity", None) or newest["capacity"].get(client),
            usable=max(filter(None, [whole(own, "usable"), usable.get(client)]), default=None),
            failed=int(missing.get(client, 0)),
            refused=int(refusals.get(client, 0)),
            why=why,
            rests_until=until if until is not None and until > run.round else None,
            seconds=number(own, "seconds", None),
            bytes_up=newest["bytes_up_sent"].get(client),
            bytes_down=newest["bytes_down_sent"].get(client),
            macro_f1=newest["macro_f1"].get(client),
            mae=newest["mae"].get(client),
            alone=alone.get(client),
        )
        lost = current and isinstance(told, Mapping) and client not in said
        state = (
            "away"
            if lost and not is_alias(client)
            else _state(person, own, last, current, client in waited)
        )
        people.append(replace(person, state=state))
    return people


def _state(
    person: Person,
    own: Mapping[str, Any],
    last: Mapping[str, Mapping[str, float]],
    current: bool,
    waited: bool,
) -> str:
    """Return a person's state: that of now goes before that of the last round."""
    client = person.client
    if is_alias(client):
        return "forgotten"
    if own.get("retired"):
        return "retired"
    if own.get("left_out") or client in last.get("left_out", {}):
        return "left out"
    if current and own.get("online") is False:
        return "away"
    if waited:
        return "waited for"
    for metric, state in (("missing_replies", "silent"), ("refused_replies", "refused")):
        if client in last.get(metric, {}):
            return state
    if person.rests_until is not None or client in last.get("resting", {}):
        return "resting"
    return "trained" if client in last.get("bytes_up_sent", {}) else "idle"
