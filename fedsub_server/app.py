"""The ServerApp: Flower's simulation and deployment run the same strategies as ``fedsub run``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsub_core.config.idle import named_idle
from fedsub_core.config.run_config import RunConfig, dump_toml, from_flat
from fedsub_core.data.sources import card_here
from fedsub_core.data.standardise import Scaling
from fedsub_core.files import make_folder, stamped_folder, write_whole
from fedsub_core.flower.messages import is_simulated
from fedsub_core.logs import set_up_logs
from fedsub_core.packages import package_build
from fedsub_core.spelling import spelling, toml
from fedsub_server.beginning import begin_with_earlier, check_card
from fedsub_server.collected_models import collect_models
from fedsub_server.data_notes import data_in_words, note_devices, read_notes
from fedsub_server.driver import drive
from fedsub_server.forgotten import read_forgotten
from fedsub_server.leaving import PeopleLeft, left_of, take_leaves
from fedsub_server.live import Live
from fedsub_server.live_file import nodes_of, read_live
from fedsub_server.members import read_members
from fedsub_server.passed_on_roster import read_roster
from fedsub_server.results import export_csv, method_summaries, summarise_run
from fedsub_server.resuming import SERVER, decisive
from fedsub_server.run_folder import DATABASE_FILE, METRICS_FILE, MODELS, RUN_FILE
from fedsub_server.rundb import RunDatabase
from fedsub_server.tables import encodings, legend, tables_of, text_table
from strategies.protections.standardising import merged
from strategies.rounds.memory import Memory
from strategies.strategy import PersonalizedStrategy

__all__ = ["app"]

log = logging.getLogger("fedsub")
app = ServerApp()
#: Entry points of what writes reports at the end of a run: it stands above this package, and wants
#: packages that not every server has.
REPORTS = "fedsub.reports"
#: Rounds from one evaluation to the next where it takes an exchange of its own over a network.
EVALUATED_EVERY = 5


@app.main()
@spelling(toml)
def main(grid: Grid, context: Context) -> None:
    """Run the configured methods' rounds, one method after another, from where each left off.

    The folder is ``folder`` of the configuration, or ``<out>/flower-<time>``. It gets what
    `fedsub run` leaves: ``run.toml``, ``summary.json``, ``data.json`` (what devices say of how
    their samples were divided), and for each method ``state.db`` (written
    in one transaction a round), ``metrics.csv`` and, of simulated people, ``models/``; and
    ``report.html``, where what it takes is installed.
    """
    set_up_logs()
    config = evaluated_in_time(from_flat(context.run_config), grid)
    folder = run_folder(config)
    for name in config.methods:
        # A start that is refused must leave the folder as it was, its run.toml too.
        if (path := folder / name / DATABASE_FILE).exists():
            with RunDatabase(path, decisive(config, name)) as database:
                check_card(config, name, database.classes())
    write_whole(folder / RUN_FILE, dump_toml(config).encode())
    known = standardised_before(folder) if config.secure_aggregation else None
    for name in config.methods:
        scaling = run_method(grid, config, name, folder / name, known, context.run_config)
        known = merged(known, scaling) if config.secure_aggregation else None
    summarise_run(folder)
    summaries = method_summaries(folder)
    for columns, rows in tables_of(summaries):
        log.warning("\n%s", text_table(rows, columns))
    log.warning("encoding: %s", encodings(summaries))
    for note in (*legend(summaries), *data_in_words(read_notes(folder))):
        log.warning("note: %s", note)
    log.warning("run folder: %s", folder.resolve())
    # Last, so that nothing of what was trained and logged depends on it.
    write_reports(folder.resolve())


def evaluated_in_time(config: RunConfig, grid: Grid) -> RunConfig:
    """Return a configuration that says how often people are tested.

    The common model is tested in an exchange of its own, as long as that of the training. Methods
    beside it are tested in the same rounds.
    """
    if config.evaluate_every:
        return config
    common = config.hyper[config.method].tested == "received"
    spared = common and not is_simulated(grid) and config.best_by == "last"
    return replace(config, evaluate_every=EVALUATED_EVERY if spared else 1)


def run_method(
    grid: Grid,
    config: RunConfig,
    name: str,
    folder: Path,
    known: Scaling | None,
    run_config: Mapping[str, Any],
) -> Scaling | None:
    """Run the rounds of method `name` that are left, and write what they leave into `folder`.

    `known` is what methods before standardise by, where the server learns sums alone; `run_config`
    the configuration as it came. Return what this one standardises by.
    """
    make_folder(folder)
    before = None
    while True:
        strategy = build(config, name, folder, known, run_config)
        try:
            begun = run_rounds(grid, config, name, folder, strategy)
        finally:  # a run that ends early forgets them, too
            left = strategy.leaving
            take_leaves(folder.parent, left)
        before = begun if before is None else before
        if not left or strategy.finished_rounds >= config.rounds:
            break
    if strategy.finished_rounds > before:
        most = strategy.card.prediction.models(strategy.hyper) * strategy.model.full_bytes
        population, run = strategy.population, strategy.run_name
        collect_models(strategy.connection.link, population, most, folder / MODELS, run)
    return strategy.population.agreed.scaling


def build(
    config: RunConfig,
    name: str,
    folder: Path,
    known: Scaling | None,
    run_config: Mapping[str, Any],
) -> PersonalizedStrategy:
    """Return the strategy of method `name`, which knows what earlier processes left in `folder`."""
    settings = replace(config.server_settings(name), card=card_here(config.data))
    strategy, run = PersonalizedStrategy(settings), folder.parent
    outset, departures = strategy.outset, strategy.outset.departures
    outset.scaling, outset.run_config = known, run_config
    outset.roster = read_roster(run) if config.secure_aggregation else b""
    departures.forgotten, departures.members = read_forgotten(run), read_members(run)
    departures.left = partial(left_of, run)
    departures.recall(*nodes_of(read_live(run)))
    return strategy


def run_rounds(
    grid: Grid, config: RunConfig, name: str, folder: Path, strategy: PersonalizedStrategy
) -> int:
    """Run the rounds that are left, or until people leave; return how many were finished before."""
    package, path = package_build(name), folder / DATABASE_FILE
    with RunDatabase(path, decisive(config, name), package) as database:
        before, strategy.run_name = database.last_round(), database.meta().get("run", "")

        @cache
        def warned() -> list[str]:
            model = strategy.model_record()
            flaw = [f"model {model.kind}: {model.ending}."] if model.ending else []
            for text in (found := [*named_idle(config), *flaw]):
                log.warning("note: %s", text)
            return found

        def progress(round: int) -> None:
            if round > before:
                registry = strategy.population.registry
                said, behind = registry.introductions, registry.behind()
                note_devices(folder.parent, said, config.best_by, behind, warned())
                log.warning("%s: round %d of %d finished", name, round, config.rounds)
            elif round:
                log.warning("%s: going on after round %d", folder, round)

        with Live(folder.parent, strategy), suppress(PeopleLeft):
            begin_with_earlier(strategy, database, config, strategy.settings.card)
            drive(strategy, grid, database, whole=config.whole_rounds, progress=progress)
        export_csv(database, folder / METRICS_FILE)
    return before


def standardised_before(folder: Path) -> Scaling | None:
    """Return the scaling that methods of a folder standardise by, whichever these are."""
    scaling = None
    for path in sorted(folder.glob(f"*/{DATABASE_FILE}")):
        with RunDatabase(path) as database:
            memory, _ = Memory.split(database.load()[1].get(SERVER, {}))
        scaling = merged(scaling, memory.agreed.scaling if memory.agreed else None)
    return scaling


def run_folder(config: RunConfig) -> Path:
    """Return the folder that this run is kept in, which is made."""
    if not config.folder:
        return stamped_folder(Path(config.out), "flower")
    folder = Path(config.folder)
    make_folder(folder)
    return folder


def write_reports(folder: Path) -> None:
    """Have the reports on the run in `folder` written; log where they lie, or how to make them.

    Whatever goes wrong is logged: the run is complete without.
    """
    later = f"`fedsub report {folder}` writes it where fedsub[run] is installed"
    points = entry_points(group=REPORTS)
    if not points:
        log.warning("report: %s", later)
    for point in points:
        try:
            log.warning("%s: %s", point.name, point.load()(folder))
        except Exception as error:  # a package that is missing, or whatever another one raises
            reason = f"{type(error).__name__}: {error}"
            log.warning("%s: not written (%s); %s", point.name, reason, later)
