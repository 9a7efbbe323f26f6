"""Going on with a run: what is kept of it, and what must be the same."""

from __future__ import annotations

from fedsub_core.config.run_config import RunConfig, to_flat
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
    }
)


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
