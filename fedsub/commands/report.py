"""``fedsub report``: a page on what a run reached."""

from pathlib import Path

import click

from fedsub.commands.tracking import TrackersAsked, tracking


@click.command(short_help="Write a page on what a run reached.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--watch", is_flag=True, help="renew the report while the run goes on, until it ends")
@tracking
def report(folder: Path, watch: bool, trackers: TrackersAsked) -> None:
    """Write report.html into the run's folder FOLDER: curves, tables, who gains and who does not.

    The report is one file, to read offline. figures/ has its figures as PNG, tables/ its numbers as
    CSV. The run may still be going on, or have been interrupted. FOLDER may also be a study's.

    TensorBoard and MLflow get each round's means over people, without names. Logging a run again
    adds nothing there. With --watch they follow the run.
    """
    from fedsub.report.report import write_report
    from fedsub.report.watching import watch_report
    from fedsub.studies.study import STUDY_FILE
    from fedsub.studies.study_page import renew_study_page

    if (folder / STUDY_FILE).is_file():
        if watch:
            raise click.UsageError("--watch: expected the folder of a run, got a study's")
        path, runs = renew_study_page(folder)
        for run in runs if trackers.any else ():
            with trackers.following(run) as following:
                following.update()
        click.echo(f"Report: {path}")
        return
    with trackers.following(folder) as following:
        if watch:
            path = watch_report(folder, click.echo, sleep=following.pause)
        else:
            path, _ = write_report(folder)
        following.update()
    click.echo("\n".join([f"Report: {path}", *following.places()]))
