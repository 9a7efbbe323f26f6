"""``fedsub run``: train methods on a federation and compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from fedsub.commands.as_json import AS_JSON, console_beside, print_json
from fedsub.commands.declared import options_of
from fedsub.commands.engines import EngineAsked, engine_options
from fedsub.commands.interruption import told_how_to_go_on
from fedsub.commands.progress import progress
from fedsub.commands.tracking import TrackersAsked, tracking
from fedsub.commands.tuning import TUNE, chosen_values
from fedsub_core.config.capacities import CapacitySettings
from fedsub_core.config.idle import check_given
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.config.run_options import RunAsked
from fedsub_core.config.settings import (
    ModelSettings,
    NoiseSettings,
    RoundSettings,
    SecureSettings,
    SplitSettings,
    TrainingSettings,
)
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import describe, key_values

if TYPE_CHECKING:
    from rich.console import Console

    from fedsub_server.data_notes import DataNotes

#: The section of options that no other names.
REST = "Other options"
#: In which order the help lists options, and those that no class of settings declares.
SECTIONS: Mapping[str, tuple[type[Any] | None, tuple[str, ...]]] = {
    "What to run": (RunAsked, ("set", "tune", "resume")),
    "The model": (ModelSettings, ()),
    "Weak devices": (CapacitySettings, ("sizes",)),
    "Training on a device": (TrainingSettings, ()),
    "Test samples": (SplitSettings, ("class-counts",)),
    "Rounds": (RoundSettings, ()),
    "Devices that lie": (None, ("robust", "robust-share", "most-examples")),
    "What the server sees": (SecureSettings, ()),
    "What others see": (NoiseSettings, ()),
    "What travels": (None, ("upload-encoding", "download-encoding", "message-limit",
                            "largest-number")),
    "Where to compute, and what to write": (None, (
        "engine", "ray-address", "device", "threads", "out", "folder", "checkpoint-seconds",
        "whole-rounds",         "report", "json", "tensorboard", "mlflow")),
}  # fmt: skip


class Sectioned(click.Command):
    """A command whose help lists options in sections: titles, and the keys of options."""

    sections: Mapping[str, Sequence[str]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each section under its title, what no section names at the end."""
        records = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                records[parameter.opts[-1].removeprefix("--")] = record
        for title, keys in self.sections.items():
            self._write(title, [records.pop(key) for key in keys], formatter)
        self._write(REST, list(records.values()), formatter)

    def _write(
        self, title: str, rows: Sequence[tuple[str, str]], formatter: click.HelpFormatter
    ) -> None:
        with formatter.section(title):
            formatter.write_dl(rows)


class _Run(Sectioned):
    @property
    def sections(self) -> dict[str, list[str]]:  # type: ignore[override]
        """Each option once, in the first section that declares it."""
        left = dict.fromkeys(option.key for option in describe(RunConfig))
        found: dict[str, list[str]] = {}
        for title, (settings, more) in SECTIONS.items():
            declared = [option.key for option in describe(settings)] if settings else []
            found[title] = [key for key in declared if key in left] + list(more)
            for key in found[title]:
                left.pop(key, None)
        return found


@click.command(cls=_Run, short_help="Train methods on a federation and compare them.")
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--resume",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="resume the run in this folder; --rounds may be higher, --data may be a new place",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="METHOD.KEY=VALUE",
    help="a method's hyperparameter, such as fedsub.fusion=avg (see `fedsub methods`)",
)
@TUNE
@click.option(
    "--report/--no-report",
    "with_report",
    default=True,
    help="write report.html into the run's folder at the end",
)
@AS_JSON
@engine_options("clients")
@tracking
@options_of(RunConfig)
def run(
    config: str | None,
    resume: Path | None,
    settings: tuple[str, ...],
    tune: tuple[str, ...],
    with_report: bool,
    as_json: bool,
    engine: EngineAsked,
    trackers: TrackersAsked,
    **options: str | None,
) -> None:
    """Train a method, and others to compare with, on a federation.

    CONFIG is a TOML file with the same keys; options on the command line override it. The command
    prints a comparison of the methods, and the paths of the run's folder and report.
    """
    from fedsub.engines.simulation import build_grid, ray_grids
    from fedsub.studies.run import data_notes, go_on, load_data, train_methods
    from fedsub.studies.tuned_run import tuned_folder
    from fedsub_server.results import summarise_run

    if with_report:
        from fedsub.report.report import write_report  # what it lacks is said before hours of work

    trackers.check()
    console = console_beside(as_json)
    resolved = _resolved(config, resume, settings, options)
    federation = load_data(resolved, resume)
    notes = data_notes(resolved, federation)
    for text in notes.warnings:
        console.print(f"Warning: {text}", style="yellow", highlight=False, markup=False)
    if resume is not None:
        go_on(resume, resolved, federation)
    resolved, found = chosen_values(console, resolved, federation, tune, resume)
    report = None
    with ray_grids(engine.ray_address) if engine.on_ray else nullcontext(build_grid) as make_grid:
        folder = resume or tuned_folder(resolved, found)
        # Options that the folder does not keep.
        more = [] if with_report else ["--no-report"]
        more += [*(["--json"] if as_json else []), *engine.options, *trackers.options]
        with told_how_to_go_on(lambda: ["run", "--resume", str(folder.absolute()), *more]):
            with progress(console, "rounds", resolved.methods) as tell:

                def note(name: str, round: int) -> None:
                    tell(name, round, resolved.rounds)

                train_methods(resolved, federation, folder, note, make_grid)
            _print_run(console, resolved, folder, notes, next(iter(federation.clients)))
            if with_report:
                # Last, so that nothing of what was trained and printed depends on it.
                report = str(write_report(folder)[0])
                console.print(f"Report: {report}", soft_wrap=True, markup=False)
            if trackers.any:
                with trackers.following(folder) as following:
                    following.update()
                for place in following.places():
                    console.print(place, soft_wrap=True, markup=False)
    if as_json:
        print_json({"folder": str(folder), "report": report, **summarise_run(folder)})


def _resolved(
    config: str | None,
    resume: Path | None,
    settings: Sequence[str],
    options: Mapping[str, str | None],
) -> RunConfig:
    """Return the run's configuration: the file's or the resumed run's, and what overrides it."""
    from fedsub.studies.run import resumed_config
    from fedsub_core.config.named_code import check_named
    from fedsub_core.data.sources import WATCH, absolute_source

    overrides: dict[str, Any] = {
        key.replace("_", "-"): value for key, value in options.items() if value is not None
    }
    overrides |= key_values(settings, "--set", "fedsub.fusion=avg")
    if resume is not None:
        if config is not None:
            raise ConfigError("--resume uses the run's own configuration: leave the file out")
        resolved = resumed_config(resume, overrides)
        if resolved.data != WATCH and not Path(resolved.data).exists():
            raise DataError(
                f"{resolved.data}: the run's data are not there. If they were moved, give the new "
                "place with --data"
            )
    else:
        resolved = read_config(config, overrides)
        check_given(resolved, overrides, "command line")
        if config is not None:
            check_named(resolved, config, overrides)
    before = str(Path(resolved.from_run).resolve()) if resolved.from_run else ""
    return replace(resolved, data=absolute_source(resolved.data), from_run=before)


def _print_run(
    console: Console, config: RunConfig, folder: Path, notes: DataNotes, person: str
) -> None:
    """Print how methods compare, where the run lies, and how `person`'s model is used."""
    from fedsub.report.tables import print_results
    from fedsub_core.data.findings import split_warning
    from fedsub_server.methods_paragraph import split_people
    from fedsub_server.results import method_summaries
    from fedsub_server.tuned import tuned_in_words

    print_results(console, method_summaries(folder))
    said = split_warning([one.split for one in notes.splits.values()])
    grouped = any(one.split.startswith(("by whole", "as its")) for one in notes.splits.values())
    in_time = "Everybody's samples were split in time."
    said = said or (f"{split_people(notes)}." if grouped else in_time)
    console.print(said, soft_wrap=True, highlight=False)
    if chosen := tuned_in_words(folder):
        console.print(chosen, soft_wrap=True, highlight=False, markup=False)
    console.print(f"Run folder: {folder}", soft_wrap=True, markup=False)
    use = f"fedsub predict --run {quote(str(folder))} --client {person} --input NEW.npz"
    others = " (--method NAME for another's)" if len(config.methods) > 1 else ""
    whose = f"A person's model by {config.method}{others}"
    console.print(f"{whose}: {use}", soft_wrap=True, markup=False)
