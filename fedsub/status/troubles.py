"""What is wrong with a run, in sentences that say what to do."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fedsub.status.facts import Status, Trouble
from fedsub_core.config.run_config import RunConfig
from fedsub_core.metric_names import ANEW
from fedsub_core.release import behind
from fedsub_server.rundb_glance import Glance

#: A disk with less room is said; a run's database, its log and Flower's grow on it.
LEAST_FREE = 1024**3
#: A certificate that ends sooner is said, days.
LEAST_DAYS = 30
#: A round that takes more than so many times the usual one, and more than a minute longer, is said.
LONG = 3.0
_A_MINUTE = 60.0


def troubles(
    status: Status, config: RunConfig, look: Glance | None, live: Mapping[str, Any]
) -> Iterator[Trouble]:
    """Yield the troubles that somebody should look at; none where all is well."""
    going = status.state in ("going on", "elsewhere")
    if status.state == "stopped":
        ended = live.get("ended")
        yield Trouble(
            "stopped",
            f"stopped after round {status.finished} of {status.rounds}",
            why=str(ended) if ended and ended != "finished" else "",
            todo="Start it with the same folder, and it goes on",
        )
    yield from _people(status)
    anew = {} if look is None else look.rounds.get(look.round, {}).get(ANEW, {})
    if anew:
        said = "began anew in the last round: the device has no state of this run left"
        yield Trouble("began anew", said, sorted(anew), todo="See whether its state-dir was lost")
    if going and look is not None:
        yield from _quorum(status, config, look)
    if going and look is not None and look.seconds and status.phase_seconds is not None:
        usual = sorted(look.seconds)[len(look.seconds) // 2]
        if status.phase_seconds > max(LONG * usual, usual + _A_MINUTE):
            yield Trouble(
                "long round",
                f"round {status.round} takes long: {status.phase} for {status.phase_seconds:.0f} "
                f"s, a whole round usually {usual:.0f} s",
            )
    if going and status.phase == "gathering" and (status.phase_seconds or 0) > _A_MINUTE:
        yield Trouble(
            "devices",
            f"waits for devices since {status.phase_seconds:.0f} s: {status.there} are there, "
            f"{config.min_clients} are needed (min-clients)",
        )
    if status.disk_free is not None and status.disk_free < LEAST_FREE:
        yield Trouble(
            "disk", f"{status.disk_free / 1e6:,.0f} MB of disk are left where the run's folder lies"
        )
    if status.certificate_days is not None and status.certificate_days < LEAST_DAYS:
        if status.certificate_days <= 0:
            yield Trouble(
                "certificate",
                "the server's certificate has ended: fedsub deploy certificates --renew",
            )
        else:
            yield Trouble(
                "certificate",
                f"the server's certificate ends in {status.certificate_days:.0f} days: fedsub "
                "deploy certificates --renew",
            )


def _people(status: Status) -> Iterator[Trouble]:
    for state, said in (
        ("silent", "did not answer in the last round"),
        ("refused", "sent what cannot be used in the last round"),
        ("resting", "rests, after it was silent or slow"),
        ("away", "is not connected"),
        ("left out", "trains no more, as it led the others astray"),
    ):
        names = [person.client for person in status.people if person.state == state]
        if names and (status.state != "finished" or state in ("silent", "refused", "left out")):
            yield Trouble(state, said, names)
    if status.version and status.state in ("going on", "elsewhere"):
        told = {person.client: person.version or "" for person in status.people}
        older = behind({who: said for who, said in told.items() if said}, status.version)
        for version in sorted({*older.values()}):
            names = [client for client, said in older.items() if said == version]
            said = f"is behind the server, which runs {status.version}"
            yield Trouble("behind", said, names, why=f"it runs {version}")
    for node, why in status.turned_away:
        yield Trouble("turned away", f"node {node} was turned away", why=why)


def _quorum(status: Status, config: RunConfig, look: Glance) -> Iterator[Trouble]:
    """Yield that one more failure ends the run, where there was one already."""
    last = look.rounds.get(look.round, {})
    asked, usable = (len(last.get(f"bytes_{way}_sent", {})) for way in ("down", "up"))
    needed = max(1, math.ceil(config.quorum * asked))
    if usable < asked and usable - 1 < needed:
        yield Trouble(
            "quorum",
            f"quorum in danger: {usable} of {asked} sent what could be used in round "
            f"{look.round}, {needed} are needed (quorum={config.quorum:g}): one fewer ends the run",
        )
    there = sum(person.state not in ("away", "left out") for person in status.expected)
    gone = status.there < len(status.expected)
    enough = there >= config.min_clients
    if gone and there <= config.min_clients:
        yield Trouble(
            "quorum",
            f"{there} devices are connected, {config.min_clients} are needed for a round "
            f"(min-clients): {'one fewer ends the run' if enough else 'it ends unless more come'}",
        )
