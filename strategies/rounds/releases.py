"""Releases of devices beside the server's, in the log."""

from __future__ import annotations

import logging

from fedsub_core.errors import cut
from fedsub_core.release import behind

log = logging.getLogger("fedsub")


def log_release(client: str, version: str, own: str) -> None:
    """Log a device's release where it is another than the server's `own`."""
    releases = client, cut(version), own
    if behind({client: version}, own):
        log.warning(
            "client %s: runs fedsub %s, this server %s: it is behind; upgrade it", *releases
        )
    elif version != own:
        log.info("client %s: runs fedsub %s, this server %s", *releases)
