"""A rehearsal in which some people have the page in a browser; the others' devices are Python's."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedsub.deploy.components import HOST
from fedsub.deploy.driven_browser import Driven, browser_command, find_browser
from fedsub.deploy.invitations import new_invitations, write_batch
from fedsub.deploy.joining import read_joined, write_keys
from fedsub.deploy.roster import OWNER_FILE, ROSTER_FILE, add_to_roster, joined_keys
from fedsub.engines.rehearsal import _SERVER, Rehearsal, Rounds, Say
from fedsub.engines.replayed_person import check_measurable, record
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.sources import load_client
from fedsub_core.errors import RunError
from fedsub_core.files import make_folder, write_whole
from fedsub_core.flower.modules import HTTP, demand_deployable

#: What `make web` builds.
PAGE = Path(__file__).parents[2] / "web" / "dist" / "page"
#: Seconds for a person to join and record.
JOIN_SECONDS = 120.0

Visit = Callable[[Driven, str, str], None]


def demand_page() -> None:
    """Raise RunError, with what to install, if this machine cannot have a page in a browser."""
    if (got := demand_deployable()) != HTTP:
        expected = f"{HTTP}, whose devices speak HTTP: pip install -r constraints-http.txt"
        raise RunError(f"--browser: got Flower {got}, expected {expected}")
    find_browser()
    if not (PAGE / "index.html").is_file():
        raise RunError(f"--browser: got no page in {PAGE}, expected one: make web")


class PageRehearsal(Rehearsal):
    """A rehearsal whose last clients join by an invitation, and have the page.

    Parameters
    ----------
    web : the clients that have the page, or how many of the last ones.
    page : folder of the page, without a card where `visit` is not given.
    visit : gets a tab, the address with a code, and the client; ends when it has joined and has
        recordings. None: what the data have is replayed as the sensors would give it.

    Raises RunError; as :func:`demand_page`. Raises DataError if a phone cannot measure the data's
    features.
    """

    def __init__(
        self,
        config: RunConfig,
        clients: int,
        web: Sequence[str] | int,
        say: Say,
        progress: Rounds,
        page: Path = PAGE,
        visit: Visit | None = None,
    ) -> None:
        demand_page()
        super().__init__(config, clients, say, progress)
        self.web = self.clients[-web:] if isinstance(web, int) else list(web)
        if visit is None:
            check_measurable(load_client(self.config.data, self.web[0])[0])
        self.page, self._replays = page, visit is None
        self.visit: Visit = visit or self._replay
        self.tabs = dict[str, Driven]()
        self._ending = ExitStack()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"https://{HOST}:{self.fleet}"

    @contextmanager
    def up(self) -> Iterator[None]:
        """Have everything up that a run needs, browsers among it, while a ``with`` block lasts."""
        with self._ending, super().up():
            yield

    def follow(self, run: str) -> Iterator[int]:
        """Look after everything; agree for the people, if the pages are left to this rehearsal."""
        for finished in super().follow(run):
            if self._replays:
                self._agree()
            yield finished

    def _agree(self) -> None:
        for client, tab in self.tabs.items():
            if tab.run("!!document.querySelector('#consent-yes')"):
                asked = tab.run("document.querySelector('#asks').innerText")
                self.say(f"{client} agrees to:\n{asked}")
                tab.run("document.querySelector('#consent-yes').click()")

    def _replay(self, tab: Driven, url: str, client: str) -> None:
        card, data = load_client(self.config.data, client)
        tab.open(url)
        tab.until("document.querySelector('#join-press')", JOIN_SECONDS)
        tab.run(f"document.querySelector('#name').value = {client!r}")
        tab.run("document.querySelector('#agree').click()")
        tab.run("document.querySelector('#join-press').click()")
        tab.until("document.querySelector('#record-press')", JOIN_SECONDS)
        record(tab, data, card)
        tab.until("/Waits/.test(document.querySelector('#now-says').textContent)", JOIN_SECONDS)
        self.say(f"{client}: a page in {find_browser()}, with its recordings replayed")

    @contextmanager
    def _others(self) -> Iterator[None]:
        """All clients but the page's, while a ``with`` block lasts."""
        everybody, ports = self.clients, self.node_ports
        own = [(c, port) for c, port in zip(everybody, ports, strict=True) if c not in self.web]
        self.clients, self.node_ports = [c for c, _ in own], [port for _, port in own]
        try:
            yield
        finally:
            self.clients, self.node_ports = everybody, ports

    def _start(self, name: str, command: list[str], rank: int) -> None:
        if name == "superlink":
            assert rank == _SERVER
            folder = self.place.folder / "invitations"
            self.invited = new_invitations(self.url, "a rehearsal", 1, self.web)
            write_batch(folder, list(self.invited.values()))
            command = [*command, "--page", str(self._page()), "--invitations", str(folder)]
        super()._start(name, command, rank)

    def _page(self) -> Path:
        """Return the page's folder, with the federation's card and the roster's owner in it."""
        if (self.page / CARD_FILE).is_file():
            return self.page
        made = self.place.folder / "page"
        made.mkdir()
        card = self.place.device(self.clients[0]) / CARD_FILE
        owner = [self.place.roster / f"{OWNER_FILE}.pub"] if self.config.secure_aggregation else []
        for file in [*self.page.iterdir(), card, *owner]:
            (made / file.name).write_bytes(file.read_bytes())
        return made

    def _register_keys(self) -> None:
        with self._others():
            super()._register_keys()

    def _start_devices(self) -> None:
        with self._others():
            super()._start_devices()
        certificate = self.place.credentials.certificate
        codes = {one.client: code for code, one in self.invited.items()}
        for client in self.web:
            profile, log = self.place.folder / f"browser-{client}", self.place.log(f"web-{client}")
            command = browser_command(find_browser(), profile, certificate, "--lang=en-GB")
            self.tabs[client] = tab = Driven(command, log)
            self._ending.callback(tab.close)
            self.visit(tab, f"{self.url}/#{codes[client]}", client)
        if self.config.secure_aggregation:
            self._add_to_roster()

    def _add_to_roster(self) -> None:
        """Make the roster anew, with the keys of those who joined, and have the run pass it on."""
        place, codes = self.place, {one.number: code for code, one in self.invited.items()}
        write_keys(place.folder / "joined.csv", read_joined(place.folder / "invitations"))
        joined = joined_keys(place.folder / "joined.csv", codes)
        (place.roster / ROSTER_FILE).unlink()
        with self._others():
            files = {client: Path(f"{place.key(client)}.pub") for client in self.clients}
        add_to_roster(place.roster, files, joined)
        make_folder(place.run)
        write_whole(place.run / ROSTER_FILE, (place.roster / ROSTER_FILE).read_bytes())
