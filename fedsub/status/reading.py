"""Reads how a run, a deployment or a study is doing from its folder, and writes nothing there."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from platform import node as this_host
from statistics import median
from typing import Any

from fedsub.status.facts import Person, Status
from fedsub.status.groups import who_is_with_whom
from fedsub.status.machine import (
    certificate_days,
    free_bytes,
    holder,
    memory_of,
    sees_processes,
)
from fedsub.status.troubles import troubles
from fedsub.studies.study import STUDY_FILE
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.errors import RunError
from fedsub_core.metric_names import OWN_HEADS
from fedsub_server.forgotten import is_alias
from fedsub_server.live_file import BEAT_SECONDS, read_live
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE
from fedsub_server.rundb_glance import Glance, glance
from fedsub_server.twins import LOCAL, better_twin

#: What a rehearsal, and the commands of a deployment, call the folder of a run in theirs.
RUN_IN_DEPLOYMENT = "run"
#: Where the server's certificate may lie in a deployment's folder.
CERTIFICATES = ("certs/server.pem", "server.pem")
#: After how many beats without a word a server on another machine is taken for gone.
BEATS = 4
#: A deployment whose run has not begun is starting as long as its logs are no older, in seconds.
STARTING_SECONDS = 120.0


def read_status(folder: Path, certificate: Path | None = None) -> Status:
    """Return how what lies in `folder` is doing.

    Parameters
    ----------
    certificate : the server's, where it does not lie in the deployment's folder.

    Raises
    ------
    RunError
        If the folder is none, or no run's, deployment's or study's; or a database is damaged.
    ConfigError
        If its run.toml cannot be read.
    """
    if not folder.exists() and ":" in str(folder):
        host, _, path = str(folder).rpartition(":")
        raise RunError(
            f"{folder}: a run on another machine is asked there: ssh {host} fedsub status {path}"
        )
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder; give that of a run, or of a deployment")
    if (folder / STUDY_FILE).is_file():
        from fedsub.status.studies import study_status  # it loads what trains

        return study_status(folder)
    if (folder / RUN_FILE).is_file():
        return run_status(folder, "run", certificate)
    if (folder / RUN_IN_DEPLOYMENT / RUN_FILE).is_file():
        places = [folder / name for name in CERTIFICATES]
        found = next((place for place in places if place.is_file()), None)
        return run_status(folder / RUN_IN_DEPLOYMENT, "deployment", certificate or found)
    if (folder / "app" / "pyproject.toml").is_file() and (folder / "logs").is_dir():
        state = "starting" if _is_starting(folder) else "not begun"
        return Status(str(folder), "deployment", state, disk_free=free_bytes(folder))
    below = sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}"))
    hint = f" There are runs in it, such as {below[-1]}." if below else ""
    raise RunError(
        f"{folder}: got a folder that is no run's, deployment's or study's: expected {RUN_FILE} in "
        f"it, or in {RUN_IN_DEPLOYMENT}/.{hint}"
    )


def _is_starting(folder: Path) -> bool:
    """Return whether a deployment's processes wrote to their logs of late."""
    written = [path.stat().st_mtime for path in (folder / "logs").glob("*.log")]
    return bool(written) and time.time() - max(written) < STARTING_SECONDS


@dataclass(frozen=True)
class _Found:
    """What lies in a run's folder.

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
        """The method's twin, and what each person has by it; "" where there is none."""
        local = self.looks.get(LOCAL)
        trained = {} if local is None else local.newest("macro_f1")
        solved = next((h for g in (local, self.look) if g and (h := g.newest(OWN_HEADS[0]))), {})
        name = better_twin(trained, solved)
        if name == self.method:
            return "", {}
        return name, trained if name == LOCAL else solved

    @property
    def done(self) -> bool:
        """Whether all rounds of all methods are committed."""
        wanted = self.config.methods
        return all(n in self.looks and self.looks[n].round >= self.config.rounds for n in wanted)

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
            silent = time.time() - _number(self.live, "written", 0.0)
            return "elsewhere" if silent < BEATS * BEAT_SECONDS else "stopped"
        if self.process is not None:
            return "going on"
        if not self.looks and not self.live:
            return "not begun"
        if sees_processes():
            return "stopped"
        written = _number(self.live, "written", 0.0)
        return "going on" if time.time() - written < BEATS * BEAT_SECONDS else "stopped"


def run_status(folder: Path, kind: str, certificate: Path | None = None) -> Status:
    """Return how a run is doing; raises as :func:`read_status`."""
    config = read_config(folder / RUN_FILE)
    paths = {name: folder / name / DATABASE_FILE for name in config.methods}
    looks = {name: glance(path) for name, path in paths.items() if path.is_file()}
    live = read_live(folder) or {}
    begun = [name for name in config.methods if name in looks]
    unfinished = [name for name in begun if looks[name].round < config.rounds]
    last_begun = (unfinished or begun or [config.method])[-1]
    process = holder([paths[name] for name in begun])
    found = _Found(folder, config, looks, str(live.get("method") or last_begun), live, process)
    if found.done:  # what it was for
        found = replace(found, method=config.method)
    state, look, method = found.state, found.look, found.method
    current = bool(live) and state in ("going on", "elsewhere")
    people = _people(found, current)
    last = {} if look is None else look.rounds.get(look.round, {})
    since = _number(live, "since", None) if current else None
    status = Status(
        path=str(folder),
        kind=kind,
        state=state,
        host=str(live.get("host") or ""),
        version=str(live.get("version") or ""),
        method=method,
        methods=config.methods,
        twin=found.twin[0],
        round=_round(found) if current else (look.round if look else 0),
        finished=look.round if look else 0,
        rounds=config.rounds,
        phase=str(live.get("phase") or "") if current else "",
        phase_seconds=None if since is None else max(0.0, time.time() - since),
        limit=(_number(live, "limit", 0.0) or None) if current else None,
        seconds=sum(one.total for one in looks.values()),
        seconds_left=None if state not in ("going on", "elsewhere") else _left(found),
        round_seconds=look.seconds[-1] if look and look.seconds else None,
        asked=_texts(live.get("asked")) if current else (),
        waited_for=_texts(live.get("waited_for")) if current else (),
        bytes_up=_sum(last, "bytes_up_sent"),
        bytes_down=_sum(last, "bytes_down_sent", "bytes_evaluation_sent"),
        disk_free=free_bytes(folder),
        memory=None if process is None else memory_of(process),
        certificate_days=None if certificate is None else certificate_days(certificate),
        people=people,
        together=who_is_with_whom(look),
        turned_away=_turned_away(live) if current or live.get("ended") else (),
    )
    return replace(status, troubles=tuple(troubles(status, config, look, live)))


def _people(found: _Found, current: bool) -> list[Person]:
    """Return what is known of everybody, from the server's last words and from the database."""
    look = found.look
    told = found.live.get("people")
    said: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    # Who took part in a method that trained before may be away since.
    before = [metrics for one in found.looks.values() for metrics in one.rounds.values()]
    known = {name for metrics in before for each in metrics.values() for name in each}
    usable = {} if look is None else look.last("bytes_up_sent")
    waited = set(_texts(found.live.get("waited_for"))) if current else set[str]()
    last = {} if look is None else look.rounds.get(look.round, {})
    _, alone = found.twin
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
        until = _whole(own, "rests_until")
        person = Person(
            client=client,
            state="idle",
            node=_whole(own, "node"),
            since=str(own["since"]) if current and own.get("since") else None,
            version=str(own["version"]) if own.get("version") else _version(look, own),
            capacity=_number(own, "capacity", None) or _last(look, "capacity", client),
            usable=max(filter(None, [_whole(own, "usable"), usable.get(client)]), default=None),
            failed=int(_count(look, "missing_replies", client)),
            refused=int(_count(look, "refused_replies", client)),
            why=why,
            rests_until=until if until is not None and until > _round(found) else None,
            seconds=_number(own, "seconds", None),
            bytes_up=_last(look, "bytes_up_sent", client),
            bytes_down=_last(look, "bytes_down_sent", client),
            macro_f1=_last(look, "macro_f1", client),
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


def _round(found: _Found) -> int:
    """Return the round that goes on or comes next; 0 before the first."""
    done = found.look.round if found.look else 0
    after = min(done + 1, found.config.rounds) if done else 0
    return max(int(_number(found.live, "round", 0)), after)


def _state(
    person: Person,
    own: Mapping[str, Any],
    last: Mapping[str, Mapping[str, float]],
    current: bool,
    waited: bool,
) -> str:
    """Return what somebody is: what is the case now goes before what was in the last round."""
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


def _left(found: _Found) -> float | None:
    """Return the seconds until the run's end, by the pace of its last rounds; None without one."""
    if found.look is None or not found.look.seconds:
        return None
    left = 0
    for name in found.config.methods:
        done = found.looks[name].round if name in found.looks else 0
        left += max(0, found.config.rounds - done)
    return left * median(found.look.seconds)


def _version(look: Glance | None, own: Mapping[str, Any]) -> str | None:
    # People of a simulation say none: they are the run's process.
    return look.version if look is not None and not own else None


def _last(look: Glance | None, metric: str, client: str) -> float | None:
    for round in sorted({} if look is None else look.rounds, reverse=True):
        assert look is not None
        if client in (values := look.rounds[round].get(metric, {})):
            return values[client]
    return None


def _count(look: Glance | None, metric: str, client: str) -> float:
    return 0.0 if look is None else look.sums(metric).get(client, 0.0)


def _sum(metrics: Mapping[str, Mapping[str, float]], *names: str) -> float | None:
    values = [value for name in names for value in metrics.get(name, {}).values()]
    return sum(values) if values else None


def _turned_away(live: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = live.get("turned_away")
    return [(str(n), str(why)) for n, why in found.items()] if isinstance(found, Mapping) else []


def _texts(found: object) -> tuple[str, ...]:
    return tuple(str(one) for one in found) if isinstance(found, list) else ()


def _number(facts: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return a fact as a number: `default` where it is none, as of another version's server."""
    with suppress(TypeError, ValueError):
        found = default if facts.get(key) is None else float(facts[key])
        return found if found is None or math.isfinite(found) else default
    return default


def _whole(facts: Mapping[str, Any], key: str) -> int | None:
    """Return a fact that is a whole number; Flower's ids of nodes are too large for a float."""
    found = facts.get(key)
    return found if isinstance(found, int) else None
