"""What newcomers get of a run: its sums over everybody, and how samples are to be seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedsub_client.loaded_model import load_model
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.config.settings import SecureSettings, SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.options import Value, describe
from fedsub_core.wire.bundles import Bundle
from fedsub_server.resuming import SERVER
from fedsub_server.run_folder import DATABASE_FILE, MODELS, RUN_FILE
from fedsub_server.rundb import RunDatabase, State
from strategies.rounds.agreement import AGREED
from strategies.rounds.context import SummedPeople
from strategies.rounds.newcomers import NOBODY, Newcomers

#: What a newcomer's device goes by, beside the hyperparameters: all else of a run is not told.
TOLD = ("method", "seed", "encoder", "standardise", "norm")


@dataclass(frozen=True, eq=False)
class ForNewcomers:
    """All that a newcomer's device needs of a finished run, and nothing of any single person.

    Parameters
    ----------
    flat : the run's keys that a device goes by, with the method's hyperparameters.
    classes, shape : of everybody's samples, as they were agreed on.
    scaling : everybody's standardisation; None where people do not share one.
    card : of the data that the run saw; None where only its devices know it.
    round : the run's last.
    people : whose sums they are: how many.
    download : the sums, and everybody's equations.
    """

    flat: Mapping[str, Value]
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    scaling: Scaling | None
    card: Card | None
    round: int
    people: int
    download: Bundle

    @cached_property
    def settings(self) -> DeviceSettings:
        """What the device half needs; how secure sums are made is no matter of a newcomer."""
        config = read_config(None, {**self.flat, "beside": ""})
        return replace(config.device_settings(config.method), secure=SecureSettings())

    def for_person(self, client: str = NOBODY, replaces: bool = False) -> ForNewcomers:
        """Return the sums, the same for everybody."""
        if replaces:
            raise ConfigError(
                f"client {client!r}: got its samples in the run to be replaced by what is for "
                "newcomers, expected the run's folder: nothing of single people is in this file"
            )
        return self

    def knows(self, client: str) -> bool:
        """Return whether a person's samples in the sums are known; here nobody's are."""
        return False


class FinishedRun:
    """A method's finished run, of which newcomers get what they need.

    Parameters
    ----------
    folder : the run's.
    method : one of the run's; None: the main one.

    Raises RunError if there is no such run or method, it is not finished, or holds no sums. Raises
    ConfigError if the method solves nothing of sums.
    """

    def __init__(self, folder: Path, method: str | None = None) -> None:
        if not (folder / RUN_FILE).is_file():
            raise RunError(f"{folder}: got no {RUN_FILE}, expected a run's folder")
        config = read_config(folder / RUN_FILE)
        self.method, self.folder = method or config.method, folder
        there = sorted(path.parent.name for path in folder.glob(f"*/{DATABASE_FILE}"))
        if self.method not in there:
            raise RunError(
                f"{folder}: got method {self.method!r}, expected one that ran: "
                f"{', '.join(there) or 'none did'}"
            )
        with RunDatabase(folder / self.method / DATABASE_FILE) as database:
            started, record = json.loads(database.meta()["config"]), database.model()
            self.round, state = database.load()
            #: Everybody who took part.
            self.people = frozenset(database.clients())
        self.config = self._started(started, "" if record is None else record.encoder)
        self._check_finished(config, state)
        settings = self.config.server_settings(self.method)
        self._newcomers = Newcomers(settings, self.round, state[SERVER])
        if not self.summed.people:
            raise RunError(f"{folder}: {self.method}: got sums over nobody, expected some people's")

    def _started(self, started: Mapping[str, Value], encoder: str) -> RunConfig:
        """Return the method's configuration as it began; `encoder` is what ``auto`` stood for."""
        known = to_flat(read_config(None, {"method": self.method, "beside": ""}))
        kept = {key: value for key, value in started.items() if key in known}
        own = {"method": self.method, "beside": "", **({"encoder": encoder} if encoder else {})}
        return read_config(self.folder / RUN_FILE, {**kept, **own})

    def _check_finished(self, config: RunConfig, state: State) -> None:
        agreed = any(name.startswith(AGREED) for name in state.get(SERVER, {}))
        if self.round < config.rounds or not agreed:
            raise RunError(
                f"{self.folder}: {self.method}: got {self.round} finished rounds, expected "
                f"{config.rounds}: let the run end before newcomers join"
            )

    @property
    def summed(self) -> SummedPeople:
        """The people whose sums newcomers get."""
        return self._newcomers.summed

    @cached_property
    def card(self) -> Card | None:
        """The card that saved models name; None where devices keep them."""
        models = sorted((self.folder / self.method / MODELS).glob("*.safetensors"))
        return load_model(models[0]).card if models else None

    def knows(self, client: str) -> bool:
        """Return whether a person's samples in the sums are known."""
        return client in self.summed.knows

    def for_person(self, client: str = NOBODY, replaces: bool = False) -> ForNewcomers:
        """Return the sums for a person: :meth:`~strategies.rounds.newcomers.Newcomers.download`."""
        agreed = self._newcomers.agreed
        return ForNewcomers(
            self._told(),
            agreed.classes,
            agreed.shape,
            agreed.scaling,
            self.card,
            self.round,
            self.summed.people,
            self._newcomers.download(client, replaces),
        )

    def _told(self) -> dict[str, Any]:
        own = {option.key for option in describe(SplitSettings)} | set(TOLD)
        own |= {"loss"} if self.config.regression else set()  # it says that a target is learnt
        flat = to_flat(self.config).items()
        return {k: v for k, v in flat if k in own or k.startswith(f"{self.method}.")}


#: Whence newcomers get what they need.
Source = FinishedRun | ForNewcomers
