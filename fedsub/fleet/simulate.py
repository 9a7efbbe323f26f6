"""Days of a fleet: the server's rounds and real devices, on a link whose time is virtual."""

import gc
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fedsub.engines.simulation import build_strategy
from fedsub.fleet.clock import DaysOver
from fedsub.fleet.days import Days, as_csv
from fedsub.fleet.grid import FleetGrid
from fedsub.fleet.habits import DAY, HOUR, habits
from fedsub.fleet.people import fleet_of, how_made
from fedsub.studies.run import check_data, data_notes, new_folder
from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.fingerprint import fingerprints
from fedsub_core.data.sources import load_federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import make_folder, write_whole
from fedsub_core.metrics import MetricRow
from fedsub_core.packages import package_build
from fedsub_server.data_notes import write_notes
from fedsub_server.driver import Checkpoints
from fedsub_server.results import export_csv, summarise_run
from fedsub_server.resuming import decisive
from fedsub_server.run_folder import DATABASE_FILE, METRICS_FILE
from fedsub_server.rundb import RunDatabase
from strategies.rounds.server_half import State

#: The results, beside what any run leaves.
DAYS_FILE, PEOPLE_FILE = "days.csv", "people.csv"
#: What the server warns of, of which there is much.
LOG_FILE = "server.log"
#: Seconds between two looks at who is new, while no round goes on.
LOOK = 300.0


@dataclass(frozen=True)
class FleetAsked:
    """What is simulated.

    Parameters
    ----------
    people, days : how many.
    every : hours from the begin of a round to the begin of the next; 0: at once.
    samples : of a person, about.
    faults : share of messages with which something goes wrong.
    """

    people: int
    days: int
    every: float
    samples: int
    faults: float = 0.0


@dataclass(frozen=True, eq=False)
class Simulated:
    """A fleet's days: the run's folder, the results, and of whom the people are made."""

    folder: Path
    days: Days
    made: str


def simulate_fleet(
    config: RunConfig, asked: FleetAsked, progress: Callable[[float], None] = lambda day: None
) -> Simulated:
    """Run the rounds of so many days; the folder is that of any run, with a row a day beside it.

    Raises ConfigError or DataError if the run or its data cannot be used so. Raises RunError if a
    round fails, or none ended.
    """
    if len(config.methods) > 1:
        raise ConfigError(f"beside: got {config.beside!r}, expected '': a fleet runs one method")
    real = load_federation(config.data)
    fleet = fleet_of(real, asked.people, asked.samples, config.seed)
    check_data(config, fleet)
    folder = new_folder(config)
    write_notes(folder, data_notes(config, fleet))
    people = {client: habits(client, asked.days, config.seed) for client in fleet.clients}
    days = Days(people)
    with TemporaryDirectory(prefix="fedsub-fleet-") as place:
        data = Path(place) / "data"
        write_federation(data, fleet)
        flat = to_flat(replace(config, data=str(data)))
        end = asked.days * DAY
        grid = FleetGrid(people, str(data), flat, end, asked.faults, config.seed)
        own = folder / config.method
        make_folder(own)
        _drive(config, fleet, own / DATABASE_FILE, grid, days, asked, progress)
    write_whole(folder / DAYS_FILE, as_csv(days.by_day(asked.days)).encode())
    write_whole(folder / PEOPLE_FILE, as_csv(days.by_person(asked.days)).encode())
    summarise_run(folder)
    return Simulated(folder, days, how_made(real, fleet))


def _drive(
    config: RunConfig,
    fleet: Federation,
    path: Path,
    grid: FleetGrid,
    days: Days,
    asked: FleetAsked,
    progress: Callable[[float], None],
) -> None:
    """Run rounds until the days are over."""
    name, clock, began = config.method, grid.clock, [0.0]
    strategy = build_strategy(config, name)
    strategy.run_name = "fleet"
    decides = {**decisive(config, name), **fingerprints(fleet)}
    with RunDatabase(path, decides, package_build(name)) as database:
        # Days that are broken off are simulated anew, so a day's rounds are written at once.
        took, written = strategy.own_time.take, [0]
        kept = Checkpoints(
            database,
            config.rounds,
            None,
            math.inf,
            lambda round: progress(clock.now / DAY),
            server_seconds=took,
        )

        def enough(round: int) -> bool:
            strategy.registry.refresh(strategy.connection.link)
            there = len(strategy.round(round).present) + strategy.population.working
            return there >= max(1, config.clients_per_round)

        def after(round: int, state: State, rows: Sequence[MetricRow]) -> None:
            days.note(clock.now, rows)
            kept(round, state, rows)
            if int(clock.now / DAY) > written[0]:
                written[0] = int(clock.now / DAY)
                kept.write(round, state)
            following = began[0] + asked.every * HOUR
            while clock.now < following or not enough(round + 1):
                clock.skip(clock.now + LOOK)
            began[0] = clock.now

        def connected() -> None:
            database.note_model(strategy.model_record())
            gc.freeze()  # a thousand devices last to the end: no collection looks at them again

        strategy.on_connected = connected
        strategy.on_round, strategy.on_begun = after, kept.begun
        with suppress(DaysOver), _logged_into(path.with_name(LOG_FILE)):
            try:
                strategy.start(grid)
            finally:
                gc.unfreeze()
        if not strategy.finished_rounds:
            raise RunError(f"{asked.days} days: got no round that ended, expected one at least")
        kept.write(strategy.finished_rounds, strategy.lasting_state())
        export_csv(database, path.with_name(METRICS_FILE))


@contextmanager
def _logged_into(path: Path) -> Iterator[None]:
    """Write what the server logs into a file instead."""
    logger, handler = logging.getLogger("fedsub"), logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
        handler.close()
