"""``fedsub report``: a page on what a run reached."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Write a page on what a run reached.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--watch", is_flag=True, help="write it anew while the run goes on, until it is done")
def report(folder: Path, watch: bool) -> None:
    """Write report.html into the run's folder FOLDER: curves, tables, who gains and who does not.

    One file to read offline; figures/ has its figures as PNG, tables/ its numbers as CSV. The run
    may still be going on, or have been interrupted.
    """
    from fedsub.report.report import write_report
    from fedsub.report.watching import watch_report

    path = watch_report(folder, click.echo) if watch else write_report(folder)[0]
    click.echo(f"Report: {path}")
