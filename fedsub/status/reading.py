"""Reads how a run, a deployment or a study is doing from its folder, and writes nothing there."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsub.status.facts import Status, Together
from fedsub.status.machine import certificate_days, free_bytes, holder, memory_of
from fedsub.status.run_facts import RunFacts, number, people_of, texts
from fedsub.status.troubles import troubles
from fedsub.studies.study import STUDY_FILE
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import RunError
from fedsub_server.ending import read_ended
from fedsub_server.live_file import read_live
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE
from fedsub_server.rundb_glance import Glance, glance

#: The state of a service, in its folder.
SERVICE_FILE = "service.db"
#: What a rehearsal, and the commands of a deployment, call the folder of a run in theirs.
RUN_IN_DEPLOYMENT = "run"
#: Where the server's certificate may lie in a deployment's folder.
CERTIFICATES = ("certs/server.pem", "server.pem")
#: A deployment whose run has not begun is starting as long as its logs are no older, in seconds.
STARTING_SECONDS = 120.0


def read_status(folder: Path, certificate: Path | None = None) -> Status:
    """Return how what lies in `folder` is doing.

    `certificate`: the server's, where it does not lie in the deployment's folder.

    Raises RunError if the folder is none, or no run's, deployment's or study's; or a database is
    damaged. Raises ConfigError if its run.toml cannot be read.
    """
    if not folder.exists() and ":" in str(folder):
        host, _, path = str(folder).rpartition(":")
        raise RunError(
            f"{folder}: a run on another machine is asked there: ssh {host} fedsub status {path}"
        )
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder; give that of a run, or of a deployment")
    if (folder / SERVICE_FILE).is_file():
        from fedsub.service.facts import service_status

        return service_status(folder, certificate)
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


def run_status(folder: Path, kind: str, certificate: Path | None = None) -> Status:
    """Return how a run is doing; raises as :func:`read_status`."""
    config = read_config(folder / RUN_FILE)
    paths = {name: folder / name / DATABASE_FILE for name in config.methods}
    looks = {name: glance(path) for name, path in paths.items() if path.is_file()}
    live = read_live(folder) or {}
    begun = [name for name in config.methods if name in looks]
    unfinished = [
        name
        for name in begun
        if looks[name].round < config.rounds and not read_ended(folder / name)
    ]
    last_begun = (unfinished or begun or [config.method])[-1]
    process = holder([paths[name] for name in begun])
    run = RunFacts(folder, config, looks, str(live.get("method") or last_begun), live, process)
    if run.done:  # what it was for
        run = replace(run, method=config.method)
    state, look, method = run.state, run.look, run.method
    current = bool(live) and state in ("going on", "elsewhere")
    people = people_of(run, current)
    last = {} if look is None else look.rounds.get(look.round, {})
    since = number(live, "since", None) if current else None
    status = Status(
        path=str(folder),
        kind=kind,
        state=state,
        host=str(live.get("host") or ""),
        version=str(live.get("version") or ""),
        method=method,
        methods=config.methods,
        twin=run.twin[0],
        round=run.round if current else (look.round if look else 0),
        finished=look.round if look else 0,
        rounds=config.rounds,
        phase=str(live.get("phase") or "") if current else "",
        phase_seconds=None if since is None else max(0.0, time.time() - since),
        limit=(number(live, "limit", 0.0) or None) if current else None,
        seconds=sum(one.total for one in looks.values()),
        seconds_left=None if state not in ("going on", "elsewhere") else run.seconds_left,
        round_seconds=look.seconds[-1] if look and look.seconds else None,
        asked=texts(live.get("asked")) if current else (),
        waited_for=texts(live.get("waited_for")) if current else (),
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


def _sum(metrics: Mapping[str, Mapping[str, float]], *names: str) -> float | None:
    values = [value for name in names for value in metrics.get(name, {}).values()]
    return sum(values) if values else None


def _turned_away(live: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = live.get("turned_away")
    return [(str(n), str(why)) for n, why in found.items()] if isinstance(found, Mapping) else []


def who_is_with_whom(look: Glance | None) -> list[Together]:
    """Return the groups after the last committed round; [] of a method that divides nobody."""
    if look is None:
        return []
    found = [Together("", _groups(look.rounds.get(look.round, {}).get("group", {})))]
    for label, clusters in sorted(look.clusters.items()):
        name = look.classes[label] if label < len(look.classes) else f"class {label}"
        found.append(Together(name, _groups(clusters)))
    return [one for one in found if one.groups]


def _groups(numbers: Mapping[str, float]) -> list[Sequence[str]]:
    """Return the people of each number that two or more have, most of them first."""

    def members() -> Iterator[tuple[str, ...]]:
        for group in set(numbers.values()):
            yield tuple(sorted(client for client, own in numbers.items() if own == group))

    return sorted((one for one in members() if len(one) > 1), key=lambda one: (-len(one), one))
