"""The folder of a rehearsal: what each side of a deployment holds, side by side on one disk."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fedsub.deploy.certificates import make_certificates
from fedsub.deploy.components import HOST, Credentials
from fedsub.deploy.keys import make_node_key, make_secret
from fedsub.deploy.roster import OWNER_FILE, ROSTER_FILE, add_to_roster
from fedsub.engines.simulation import unseen_people
from fedsub_core.capacity import of_nobody
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.held_out import check_trainable
from fedsub_core.data.sources import client_ids, load_client
from fedsub_core.errors import DataError, RunError
from fedsub_core.files import make_folder, stamped_folder
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase


class Workplace:
    """Where everything of a rehearsal lies, under an absolute `folder`.

    Attributes
    ----------
    app, run : the Flower app; the run's folder, as the ServerApp is told.
    logs : of all processes.
    state : of the devices: a folder for each, which it makes itself.
    credentials : with which all processes on this machine prove themselves.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.app, self.run = folder, folder / "app", folder / "run"
        self.logs, self.state = folder / "logs", folder / "state"
        certs, secret = folder / "certs", folder / "keys" / "superexec.secret"
        server = certs / "server.pem", certs / "server.key"
        self.credentials = Credentials(certs / "ca.crt", *server, secret)

    def key(self, client: str) -> Path:
        """Return a device's private key; its public half ends in ``.pub``."""
        return self.folder / "keys" / client

    @property
    def roster(self) -> Path:
        """The folder of the roster of people's keys."""
        return self.folder / "keys" / "roster"

    def roster_settings(self, client: str) -> dict[str, str]:
        """Return the node config by which a device goes by the roster."""
        roster, owner = self.roster / ROSTER_FILE, self.roster / f"{OWNER_FILE}.pub"
        files = {"secure-roster": roster, "secure-owner": owner, "secure-key": self.key(client)}
        return {name: str(path) for name, path in files.items()}

    def device(self, client: str) -> Path:
        """Return the folder of a device's data: a federation of this client alone."""
        return self.folder / "devices" / client

    def log(self, name: str) -> Path:
        """Return a process's log."""
        return self.logs / f"{name}.log"

    def home(self, name: str) -> Path:
        """Return Flower's folder of a process: machines of a deployment share none either."""
        return self.folder / "flower" / name


def choose_clients(config: RunConfig, count: int) -> Federation:
    """Return the first `count` clients of the run's data.

    Raises DataError if there are fewer, or they cannot be trained on.
    """
    ids = client_ids(config.data)
    if not 0 < count <= len(ids):
        raise DataError(
            f"{config.data}: {len(ids)} clients there, {count} SuperNodes asked for; expected 1 to "
            f"{len(ids)}. Give another --clients, or a federation's folder as data."
        )
    card: Card | None = None
    clients: dict[str, ClientData] = {}
    for client in ids[:count]:
        card, clients[client] = load_client(config.data, client)
    assert card is not None
    federation = Federation(card, clients)
    check_trainable(federation)
    unseen_people(config, federation)
    return federation


def make_workplace(out: Path, federation: Federation) -> Workplace:
    """Make ``<out>/deploy-<time>`` with certificates, keys, and each device's data and state.

    Raises RunError or DataError if something of it cannot be made.
    """
    place = Workplace(stamped_folder(out.resolve(), "deploy"))
    for folder in (place.credentials.ca.parent, place.credentials.secret.parent):
        make_folder(folder)
    make_certificates(place.folder / "certs", ["localhost", HOST])
    make_secret(place.credentials.secret)
    make_folder(place.logs)
    card = replace(federation.card, capacities=of_nobody(federation.card.capacities))
    for client, data in federation.clients.items():
        make_node_key(place.key(client))
        write_federation(place.device(client), Federation(card, {client: data}))
    add_to_roster(place.roster, {c: Path(f"{place.key(c)}.pub") for c in federation.clients})
    return place


class Databases:
    """The databases of a run's methods, opened as they are made."""

    def __init__(self, run: Path, methods: Sequence[str]) -> None:
        self.paths = [run / name / DATABASE_FILE for name in methods]
        self.opened: dict[Path, RunDatabase] = {}

    def finished(self) -> int:
        """Return the number of finished rounds, of all methods together."""
        for path in self.paths:
            # Not there yet, or just being made.
            with suppress(RunError):
                if path not in self.opened:
                    self.opened[path] = RunDatabase(path)
        return sum(database.last_round() for database in self.opened.values())

    def close(self) -> None:
        """Close the databases."""
        for database in self.opened.values():
            database.close()
