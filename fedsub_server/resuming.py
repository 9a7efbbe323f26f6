"""Going on with a run: what is kept of it, and what must be the same."""

from __future__ import annotations

from collections.abc import Mapping

from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.data.findings import named
from fedsub_core.data.fingerprint import CARD_KEY, fingerprint_key
from fedsub_core.methods.table import method
from fedsub_core.options import Value

#: The group of the server's own state in a run's database.
SERVER = "server"
#: Keys that may be other when a run goes on: they decide how long and how patiently, not what.
MAY_CHANGE = frozenset(
    {
        "rounds",
        "round-timeout",
        "quorum",
        "min-clients",
        "join-timeout",
        "ask",
        "late-hours",
        "pause-hours",
        "standardise-anew",
        "identity",
        "evaluate-every",
        "method",
        "beside",
        "data",
        "device",
        "threads",
        "out",
        "folder",
        "checkpoint-seconds",
        "whole-rounds",
    }
)

#: Defaults of older releases. A run that began with one goes on with today's: devices do as what
#: they are started with says.
OLDER_DEFAULTS: Mapping[str, Value] = {"fedsub.relevance-samples": 0}


def may_change(config: RunConfig) -> frozenset[str]:
    """Return the keys that may be other when this run goes on."""
    return MAY_CHANGE - {"rounds"} if why_rounds_stay(config) else MAY_CHANGE


def why_rounds_stay(config: RunConfig) -> str:
    """Return why this run cannot be given more rounds; "" if it can."""
    if config.split == "unseen":
        return "with split=unseen the last rounds are those in which held-out people join"
    for name in config.methods:
        if method(name).fixes_rounds(config.hyper[name]):
            return f"what {name} does in a round depends on how many there are"
    return ""


def decisive(config: RunConfig, method: str) -> dict[str, Value]:
    """Return the keys and values that must be the same for the run of `method` to go on."""
    free = may_change(config)
    return {
        key: value
        for key, value in to_flat(config).items()
        if key not in free and ("." not in key or key.startswith(f"{method}."))
    }


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the differences of two configurations in words: keys and values, people by name."""
    person = fingerprint_key("")
    people = sorted(
        key.removeprefix(person) for key in before.keys() | now.keys() if key.startswith(person)
    )
    keys = sorted(key for key in before.keys() | now.keys() if not key.startswith(person))
    sentences = [
        f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for key in keys
        if key != CARD_KEY and before.get(key) != now.get(key)
    ]
    if before.get(CARD_KEY) != now.get(CARD_KEY):
        sentences.append("the federation's card is another")
    digests = [
        (client, before.get(fingerprint_key(client)), now.get(fingerprint_key(client)))
        for client in people
    ]
    changed = [
        client for client, was, is_now in digests if None not in (was, is_now) and was != is_now
    ]
    others = [
        ("has other samples", "have other samples", changed),
        ("is new", "are new", [client for client, was, _ in digests if was is None]),
        ("is gone", "are gone", [client for client, _, is_now in digests if is_now is None]),
    ]
    return sentences + [
        f"{named(clients, len(people))} {singular if len(clients) == 1 else plural}"
        for singular, plural, clients in others
        if clients
    ]
