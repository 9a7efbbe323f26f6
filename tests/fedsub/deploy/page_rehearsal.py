"""A rehearsal in which one device is the page in a browser; the others are Python's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsub.deploy.components import HOST
from fedsub.engines.rehearsal import _SERVER, Rehearsal
from fedsub_core.config.run_config import RunConfig

from .joiners import invite


class WithPage(Rehearsal):
    """A rehearsal whose client `web` joins by an invitation, and has the page.

    Parameters
    ----------
    page : a folder as `npm run build` makes it.
    visit : gets the page's address, with a code, once the server is up; ends when `web` has joined.
    """

    def __init__(
        self, config: RunConfig, clients: int, web: str, page: Path, visit: Callable[[str], None]
    ) -> None:
        super().__init__(config, clients, print, print)
        self.web, self.page, self.visit = web, page, visit

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"https://{HOST}:{self.fleet}"

    @contextmanager
    def _others(self) -> Iterator[None]:
        """All clients but the page's, while a ``with`` block lasts."""
        everybody, ports = self.clients, self.node_ports
        at = everybody.index(self.web)
        self.clients = everybody[:at] + everybody[at + 1 :]
        self.node_ports = ports[:at] + ports[at + 1 :]
        try:
            yield
        finally:
            self.clients, self.node_ports = everybody, ports

    def _start(self, name: str, command: list[str], rank: int) -> None:
        if name == "superlink":
            assert rank == _SERVER
            (code,) = invite(self.place.folder / "invitations", self.web, url=self.url)
            self.code = code
            command = [*command, "--page", str(self.page)]
            command += ["--invitations", str(self.place.folder / "invitations")]
        super()._start(name, command, rank)

    def _register_keys(self) -> None:
        with self._others():
            super()._register_keys()

    def _start_devices(self) -> None:
        with self._others():
            super()._start_devices()
        self.visit(f"{self.url}/#{self.code}")
