"""Beginning with another run's models, or going on by a card with more classes: what fits."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.config.settings import ModelSettings, NoiseSettings, SecureSettings, SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.sources import card_here
from fedsub_core.errors import RunError
from fedsub_core.methods.table import method
from fedsub_core.options import describe
from fedsub_core.widening import widened_clients
from fedsub_server.driver import MADE_ANEW, ClientStates
from fedsub_server.resuming import SERVER
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE
from fedsub_server.rundb import RunDatabase
from strategies.rounds.agreement import check_gained
from strategies.rounds.context import Earlier
from strategies.rounds.memory import Memory
from strategies.rounds.server_half import ServerHalf, State
from strategies.strategy import PersonalizedStrategy

log = logging.getLogger("fedsub")

#: Facts of a card without which a model's input means something else.
OF_SAMPLES = (
    "features",
    "units",
    "sampling_rate_hz",
    "window_s",
    "sample",
    "vocabulary",
    "sensors",
)
#: Client states' tensors that belong to one run: its best rounds so far.
OF_ONE_RUN = (*MADE_ANEW, "best ", "best/")


@dataclass(frozen=True, eq=False)
class EarlierRun:
    """A run that another begins with.

    Parameters
    ----------
    clients : simulated clients' states, ``client/<id>`` to named tensors; empty of real devices'.
    same : whether it is of the same method, so that its clients' states are of use, too.
    folder, round : the method's folder, and its last round.
    """

    left: Earlier
    clients: Mapping[str, State]
    same: bool
    folder: Path
    round: int

    def clients_begun(self, begun: dict[str, State], name: str) -> dict[str, State]:
        """Return the states that clients begin with: of those whom the run knew, theirs."""
        kept, solves = self.clients if self.same else {}, bool(method(name).training.solves)
        return {**begun, **widened_clients(kept, begun, solves, OF_ONE_RUN)}


def begin_with_earlier(
    strategy: PersonalizedStrategy,
    database: RunDatabase,
    config: RunConfig,
    card: Card | None,
    clients: ClientStates | None = None,
) -> None:
    """Let a run that has not begun yet begin with another's models, if it is configured so.

    One that goes on reads these where it has to begin anew.

    Parameters
    ----------
    card : the run's, where it is known.
    clients : whose states are kept with the run's; None: real devices keep their own.

    Raises RunError or ConfigError; as :func:`earlier_run`.
    """

    def again() -> Earlier | None:
        before = earlier_run(config, strategy.card.name, card)
        return None if before is None else before.left

    if database.classes():
        strategy.outset.earlier = again
        return
    if not (before := earlier_run(config, strategy.card.name, card)):
        return
    name, left = strategy.card.name, before.left
    log.warning(
        "%s: begins with the models of %s after round %d", name, before.folder, before.round
    )
    strategy.outset.earlier = lambda: left
    if clients is not None:
        clients.load_state(before.clients_begun(clients.state(), name))


def earlier_run(config: RunConfig, name: str, card: Card | None) -> EarlierRun | None:
    """Return the run that method `name` of a run begins with; None: with new models.

    `card` is the run's, where it is known.

    Raises RunError if there is no such run, if it finished no round, or if its models are of
    another kind: it names what came and what was expected. Raises ConfigError if its configuration
    cannot be read.
    """
    if not config.from_run:
        return None
    folder = Path(config.from_run)
    path = folder / _method_in(folder, name) / DATABASE_FILE
    with RunDatabase(path) as database:
        round, groups = database.load()
        meta = database.meta()
    state: dict[str, Tensor] = dict(groups.pop(SERVER, {}))
    memory, own = Memory.split(state)
    if not round or memory.agreed is None:
        raise RunError(f"from-run = {folder}: got no finished round, expected one at least")
    before = json.loads(meta["config"])
    same = path.parent.name == name
    _check_settings(before, config, name, same, folder)
    _check_card(card_here(read_config(folder / RUN_FILE).data), card, folder)
    run = meta.get("run", "") if same else ""
    who = memory.identities, memory.left_out
    left = Earlier(run, memory.agreed, own, str(folder), *who)
    return EarlierRun(left, groups, same, path.parent, round)


def _method_in(folder: Path, name: str) -> str:
    """Return the method of a run in a folder whose models `name` can begin with."""
    there = sorted(path.parent.name for path in folder.glob(f"*/{DATABASE_FILE}"))
    if not (folder / RUN_FILE).is_file() or not there:
        raise RunError(f"from-run = {folder}: got no run in that folder, expected its {RUN_FILE}")
    own = method(name).strategy
    fit = [name] if name in there else [one for one in there if method(one).strategy == own]
    if not fit:
        raise RunError(
            f"from-run = {folder}: got a run of {', '.join(there)}, expected one of {name}, or of "
            "a method with the same server half"
        )
    return fit[0]


def _check_settings(
    before: Mapping[str, object], config: RunConfig, name: str, same: bool, folder: Path
) -> None:
    """Refuse settings by which models or splits were made, where they are others now."""
    decide = (ModelSettings, SplitSettings, SecureSettings)
    keys = [option.key for settings in decide for option in describe(settings)]
    now = to_flat(config)
    if same and ServerHalf.of(config.server_settings(name)).keeps_people:
        keys += [key for key in now if key.startswith(f"{name}.")]  # what is kept was made by them
    found = [
        f"{key}: got {now[key]!r}, expected {before[key]!r}"
        for key in dict.fromkeys(["seed", *keys])
        if key in before and key in now and before[key] != now[key]
    ]
    noise = next(option.key for option in describe(NoiseSettings))
    if before.get(noise):
        found.append(
            f"{noise}: got models with noise {before[noise]}, whose epsilon counts for "
            "that run alone, expected 0"
        )
    if found:
        raise RunError(f"from-run = {folder}: {'; '.join(found)}, as its models were made")


def _check_card(before: Card | None, now: Card | None, folder: Path) -> None:
    """Refuse samples in other units, or of other channels."""
    if before is None or now is None:
        log.info("from-run = %s: its card is not here: units are not compared", folder)
        return
    for key in OF_SAMPLES:
        if (got := getattr(now, key)) != (expected := getattr(before, key)):
            raise RunError(
                f"from-run = {folder}: federation.toml: {key}: got {got!r}, expected {expected!r} "
                "as its models see them"
            )


def check_card(config: RunConfig, name: str, had: tuple[str, ...]) -> None:
    """Refuse the card of a run's data that a run of other classes cannot go on with.

    Raises RunError or ConfigError; as :meth:`strategies.strategy.PersonalizedStrategy.connect`.
    """
    if had and (card := card_here(config.data)) is not None:
        check_gained(had, card.classes, f"{config.data}: federation.toml")
        if card.classes != had:
            ServerHalf.of(config.server_settings(name)).check_gains(len(had), len(card.classes))
