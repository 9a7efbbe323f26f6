"""The connection to a Ray cluster that runs already, and whether its nodes have this fedsub."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedsub_core.errors import RunError, cut
from fedsub_core.extras import lacking
from fedsub_core.version import build

#: Else Ray tells of its next version, and pages of a dead node's log beside the progress.
_QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_USAGE_STATS_ENABLED": "0",
}
#: Seconds for an address to answer, and for a node to start a process.
_ANSWER, _START = 5, 60


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, check its nodes' fedsub, yield the module ``ray``, disconnect.

    `address` is ``HOST:PORT``; None: RAY_ADDRESS, or the cluster that runs on this machine.

    Raises ConfigError if Ray is not installed. Raises RunError if no cluster answers, or one of its
    nodes has another fedsub.
    """
    ray = _ray()
    _connect(ray, address)
    try:
        _check_versions(ray)
        yield ray
    finally:
        ray.shutdown()


def _ray() -> Any:
    for key, value in _QUIET.items():
        os.environ.setdefault(key, value)
    try:
        import ray
    except ImportError as error:
        raise lacking("--engine ray", "ray") from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    from ray._private.services import canonicalize_bootstrap_address

    wanted = address or os.environ.get("RAY_ADDRESS") or "auto"
    try:
        found = canonicalize_bootstrap_address(wanted)
        if found is None:
            raise ValueError("expected HOST:PORT")
        # Where nothing answers, Ray would try for minutes.
        host, _, port = found.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        ray.init(address=found, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise RunError(
            f"Ray cluster at {wanted}: cannot be used ({in_short(error)}). Start one with `ray "
            "start --head`, join it with `ray start --address HOST:PORT` on every other machine, "
            "and call fedsub on one of them"
        ) from error


def _check_versions(ray: Any) -> None:
    """Raise RunError where a node that runs could go to has another fedsub, or none."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def version_there() -> str:
        # A function in a function travels as its code: fedsub may be missing there.
        try:
            from fedsub_core.version import build
        except ImportError:
            return "none"
        return build()

    asked = []
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ask = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(version_there)
            asked.append((node["NodeManagerHostname"], ask.remote()))
    for name, answer in asked:
        try:
            got = ray.get(answer, timeout=_START)
        except (ray.exceptions.GetTimeoutError, ray.exceptions.RayTaskError) as error:
            raise RunError(
                f"Ray node {name}: does not say which fedsub it has ({in_short(error)}). Look at "
                "it with `ray status`, or take it out of the cluster"
            ) from error
        except ray.exceptions.RayError:
            continue  # it died, which Ray takes seconds to see: runs sent there are repeated
        check_version(name, got, build())


def check_version(node: str, got: str, expected: str) -> None:
    """Raise RunError where a node's fedsub is not the one of where it was called."""
    if got != expected:
        raise RunError(
            f"Ray node {node}: got fedsub {got}, expected {expected} as where it was "
            "called. Install the same code on all nodes"
        )


def in_short(error: BaseException) -> str:
    """Return an error of Ray's, which are long, on one line."""
    return f"{type(error).__name__}: {cut(error)}"


def failure(error: Any) -> RunError:
    """Return the error of work that failed on a worker, as it is raised here."""
    cause: object = error.cause
    return cause if isinstance(cause, RunError) else RunError(f"a worker failed: {in_short(error)}")
