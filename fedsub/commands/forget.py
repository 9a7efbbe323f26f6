"""``fedsub forget``: remove a person from a run."""

from pathlib import Path

import click

#: What no file of the run can take back.
REMAINS = """\
What others learnt from {client} stays: in the global model, other people's models, the shared
standardisation and the clusters that it helped to form. To remove that, train again without it.
Copies of the run's folder and the device's own files are not changed. If the run goes on, it leaves
{client} out: forgotten.json has a digest of the name. Data need not be changed. So that the device
no longer connects, unregister its key: flwr supernode unregister NODE-ID."""


@click.command(short_help="Remove a person from a run.")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("client")
@click.option("--yes", is_flag=True, help="do not ask")
def forget(run: Path, client: str, yes: bool) -> None:
    """Remove CLIENT from the folder RUN: its rows, prototypes, scores, key, model and name.

    The metrics stay, without the name. A report is written again. A run that is going on ends at
    its next round. If you start it again, it resumes without CLIENT, whose data need not be
    removed.
    """
    from fedsub.report.report import remove_report, write_report
    from fedsub_server.forgetting import forget as forget_client
    from fedsub_server.run_folder import RUN_FILE

    if not yes:
        click.confirm(f"Forget client {client} in {run}? This cannot be undone", abort=True)
    # First, so that no name stays in a report where this is stopped half-way.
    had_report = (run / RUN_FILE).is_file() and remove_report(run)
    try:
        alias = forget_client(run, client)
    finally:
        if had_report:
            write_report(run)
    click.echo(f"{run}: client {client} is forgotten; its metrics stand under {alias!r}.")
    click.echo(REMAINS.format(client=client))
