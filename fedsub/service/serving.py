"""The process of `fedsub serve`: the supervisor, and the endpoint beside it."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsub.deploy.processes import Supervisor
from fedsub.deploy.signals import EndSignals
from fedsub.service.endpoint import guard_of
from fedsub.service.facts import lock_folder, service_status
from fedsub.service.state import ServiceFile, Settings
from fedsub.service.superlink_port import SuperLinkPort
from fedsub.service.supervisor import ServiceSupervisor
from fedsub.status.endpoint import Endpoint, address, hosts_of
from fedsub_core.errors import ConfigError
from fedsub_core.logs import set_up_logs

#: Seconds between two looks whether somebody asked to end.
_STEP = 0.1


def serve_folder(
    folder: Path,
    listen: str | None,
    tls: tuple[Path, Path] | None,
    names: bool,
    say: Callable[[str], None],
) -> None:
    """Serve a service's folder until a signal ends it.

    Raises ConfigError if it is to listen beyond loopback without TLS: tokens would be read on the
    way. Raises RunError if it is no service's folder, another process serves it, or nothing can
    listen there.
    """
    if not sys.stderr.isatty():  # a journal has no width at which lines are to end
        logging.basicConfig(format="%(message)s", level=logging.WARNING, force=True)
    set_up_logs()
    with ServiceFile(folder) as file, EndSignals() as signals:
        held = lock_folder(file.folder)
        with (
            Supervisor(signals=signals) as children,
            _listening(file.folder, listen, tls, names, say),
        ):

            def wait(seconds: float) -> None:
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline:
                    signals.raise_received()
                    time.sleep(_STEP)

            def port(settings: Settings) -> SuperLinkPort:
                return SuperLinkPort(file.folder, settings, children)

            say(f"{folder}: served; Ctrl-C ends it, and leaves Flower's run alone")
            ServiceSupervisor(file, port, time.time).serve(wait)
        del held


@contextmanager
def _listening(
    folder: Path,
    listen: str | None,
    tls: tuple[Path, Path] | None,
    names: bool,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Answer at an address while a ``with`` block lasts."""
    if listen is None:
        yield
        return
    at = address(listen)
    if hosts_of(at[0]) is None and tls is None:
        raise ConfigError(
            f"--listen: got {listen} without --certificate and --key, expected both beyond "
            "loopback: tokens would be read on the way"
        )
    certificate = None if tls is None else tls[0]

    with Endpoint(
        at, lambda: service_status(folder, certificate), names, guard_of(folder, at[0]), tls
    ) as endpoint:
        thread = threading.Thread(target=endpoint.serve, name="endpoint", daemon=True)
        thread.start()
        say(f"{endpoint.url}: a page, /metrics, /health, /ready, and acts with a token")
        try:
            yield
        finally:
            endpoint.stop()
            thread.join(5)
