"""Options of ``fedsub-superlink`` that Flower's does not have, and what one release cannot do."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from fedsub_core.errors import RunError
from fedsub_core.flower.modules import GRPC, HTTP

log = logging.getLogger("fedsub")


def own_options(arguments: Sequence[str], release: str) -> tuple[dict[str, Path | None], list[str]]:
    """Return the paths of our own options, and the arguments that are Flower's.

    ``page`` and ``invitations`` are folders; ``memory`` is the file of a SuperLink's devices, whose
    state is in memory else.

    Over gRPC it is noted in the log that devices without Python cannot take part.

    Parameters
    ----------
    release : Flower's that is installed.

    Raises RunError if there is such a folder and the release speaks gRPC; if the state is to be in
    memory and in a database.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--invitations", type=Path)
    parser.add_argument("--memory", type=Path)
    own, left = parser.parse_known_args(arguments)
    given = vars(own)
    if own.memory is not None and any(one.partition("=")[0] == "--database" for one in left):
        raise RunError("--memory: got --database, too; expected one of the two")
    if release != HTTP and (own.page or own.invitations):
        raise RunError(
            f"--page, --invitations: got flwr {GRPC}, expected {HTTP}, which speaks HTTP with "
            "devices. pip install -r constraints-http.txt"
        )
    if release != HTTP:
        log.info("over gRPC: a device without Python cannot take part, it needs Flower %s", HTTP)
    return given, left
