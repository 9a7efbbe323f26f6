"""The server's greeting, and which releases can work together."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from flwr.app import ConfigRecord

from fedsub_core.data.target import is_target
from fedsub_core.errors import MessageRefused, cut
from fedsub_core.release import Release
from fedsub_core.version import SUMS_VERSION, VERSION
from fedsub_core.wire.exchange import SALT, STYPE, WIRES
from fedsub_core.wire.handshake import Introduction

#: Versions of the wire that a side may list.
MOST_WIRES = 100
#: The record beside the greeting: the configuration of the run, as Flower hands it to apps.
SETTINGS = "settings"
#: Its keys that need not be the same on both sides: where files lie.
PLACES = frozenset({"data", "out", "folder"})
#: The key of a roster, and how many bytes it has at most: some 100,000 people.
ROSTER, MOST_ROSTER_BYTES = "roster", 2**25


def greeting(
    version: str = VERSION, given: Collection[str] = (), roster: bytes = b""
) -> ConfigRecord:
    """Return the record of the server, and of what a device must understand to take part.

    Parameters
    ----------
    version : this side's (:func:`fedsub_core.packages.version_with`).
    given : keys of the run's configuration that devices go by and that are not at their defaults.
    roster : the file of a roster that devices may lack; b"": none.
    """
    record = ConfigRecord(
        {"version": version, "schema": STYPE, "wires": sorted(WIRES), "given": sorted(given)}
    )
    if roster:
        record[ROSTER] = roster
    return record


def roster_in(record: ConfigRecord, client: str) -> bytes:
    """Return the roster in a server's greeting; b"": there is none.

    Raises MessageRefused if it is no bytes, or too many.
    """
    roster = record.get(ROSTER, b"")
    if not isinstance(roster, bytes) or len(roster) > MOST_ROSTER_BYTES:
        got = f"{len(roster)} bytes" if isinstance(roster, bytes) else type(roster).__name__
        raise MessageRefused(client, 0, ROSTER, got, f"at most {MOST_ROSTER_BYTES} bytes")
    return roster


def check_versions(record: ConfigRecord, client: str, version: str = VERSION) -> None:
    """Refuse the other side of the handshake if neither understands the other's wire.

    Or if packages that offer methods of the run are not the same here and there, or of another
    series (:class:`fedsub_core.release.Release`). FedSub's own version may be another. `version` is
    this side's.

    Raises MessageRefused; names both sides' versions; `client` is the device's id, on whichever
    side this is called.
    """
    theirs, schema = (str(record.get(key, "none")) for key in ("version", "schema"))
    got = f"fedsub {theirs} with schema {schema}"
    if not WIRES & _wires(record):
        known = " or ".join(f"fedsub.v{wire}" for wire in sorted(WIRES))
        expected = f"schema {known}, which fedsub {version} understands"
        raise MessageRefused(client, 0, "versions", got, expected)
    if not Release.of(theirs).fits(Release.of(version)):
        expected = f"fedsub {version}: the same packages, first two numbers of versions alike"
        raise MessageRefused(client, 0, "versions", got, expected)


def check_run(said: Introduction, of_sums: bool, regression: bool) -> None:
    """Refuse a device whose data or release is not of the run's kind.

    Parameters
    ----------
    of_sums : whether the run is of secure sums, of which a device must know this release's version.
    regression : whether the run is of a target, which the device's data must have; else they must
        have classes.

    Raises MessageRefused; names both sides' versions, or what the device's data have.
    """
    if is_target(said.classes) != regression:
        got = cut(said.classes)
        expected = "both ends of a target" if regression else "names of classes, no target"
        raise MessageRefused(said.client, 0, "classes", got, f"{expected}, as the run's loss says")
    if of_sums and said.sums != SUMS_VERSION:
        got = f"version {said.sums} of fedsub {said.version}"
        expected = (
            f"version {SUMS_VERSION} of fedsub {VERSION}: install the server's release on this "
            "device; it may take part in runs without secure-aggregation"
        )
        raise MessageRefused(said.client, 0, "secure sums", got, expected)


def check_given(record: ConfigRecord, client: str, unknown: Collection[str]) -> None:
    """Refuse a server whose run gives values to keys that this device does not know.

    Of keys at their defaults nothing is lost: these are what releases without them do.

    Raises MessageRefused; names these keys.
    """
    given = record.get("given", list(unknown))
    if lost := sorted(set(unknown) & set(given if isinstance(given, list) else unknown)):
        expected = f"keys of fedsub {VERSION}; install the server's release on this device"
        raise MessageRefused(client, 0, "run config", ", ".join(map(str, lost)), expected)


def check_settings(record: Mapping[str, object], client: str, config: Mapping[str, object]) -> None:
    """Refuse settings that are not those of this device's app.

    Devices that have no app go by the settings in the message. Others would train otherwise than
    they do, and nobody would see it.

    Parameters
    ----------
    record : of the server.
    config : of this run, as Flower hands it to the device's app.

    Raises MessageRefused; names the keys that differ.
    """
    theirs = {key: value for key, value in record.items() if key != SALT}
    keys = sorted((theirs.keys() | config.keys()) - PLACES)
    if other := [k for k in keys if k not in theirs or k not in config or theirs[k] != config[k]]:
        expected = "what the run's app says on this device"
        raise MessageRefused(client, 0, SETTINGS, f"others: {', '.join(other)}", expected)


def _wires(record: ConfigRecord) -> set[int]:
    """Return the versions of the wire that the other side understands; none if it says none."""
    listed = record.get("wires")
    if isinstance(listed, list):
        return {wire for wire in listed[:MOST_WIRES] if isinstance(wire, int)}
    found = re.fullmatch(r"fedsub\.v(\d{1,9})", str(record.get("schema")))
    return {int(found[1])} if found else set()
