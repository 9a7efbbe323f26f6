"""``fedsub status``: how a run, a deployment or a study is doing."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedsub.status.facts import Status

#: Seconds between two looks of --watch.
EVERY = 2.0
#: Columns of a table that is printed to no terminal.
WIDE = 220


@click.command(short_help="Show how a run, a deployment or a study is doing.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="print one JSON object, for scripts")
@click.option(
    "--watch", is_flag=True, help="renew the view until the run is finished or has stopped"
)
@click.option(
    "--certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="the server's certificate, if it is not in the deployment's folder",
)
@click.option(
    "--serve",
    metavar="[HOST:]PORT",
    help="serve a page that follows the run, /metrics (OpenMetrics), /health and /ready, on "
    "loopback unless HOST is given",
)
@click.option("--names", is_flag=True, help="with --serve: show client ids")
def status(
    folder: Path,
    as_json: bool,
    watch: bool,
    certificate: Path | None,
    serve: str | None,
    names: bool,
) -> None:
    """Show the state of what is in FOLDER: a run, a deployment or a study.

    It shows the round, the time left, who takes part, who is waited for, what was refused and why,
    bytes, disk space, and what needs attention. It only reads the folder, so it does not disturb
    the run.

    \b
    The exit code says whether all is well:
      0  going on or finished, and nothing needs attention
      1  going on or finished, and something needs attention, which is shown
      2  unknown: no such folder, not a run's folder, or damaged
      3  stopped before its end, or not started
    """  # noqa: D301  # click reads the backspace
    if names and serve is None:
        raise click.UsageError(
            "--names: got no --serve, expected it too; all other views show names anyway"
        )
    if serve is not None and (as_json or watch):
        raise click.UsageError("--serve: got --json or --watch too, expected only one of the three")
    from rich.live import Live

    from fedsub.status.reading import read_status
    from fedsub.status.shown import screen

    def look() -> Status:
        return read_status(folder, certificate)

    if serve is not None:
        _serve(serve, look, names)
        return
    console = Console()
    if not console.is_terminal:  # a pipe has no width
        console.width = WIDE
    found = look()
    paged = watch and console.is_terminal and not as_json
    # Ctrl-C ends the watching, whatever it interrupts.
    with suppress(KeyboardInterrupt):
        if paged:
            with Live(console=console, screen=True, auto_refresh=False) as page:
                for seen in _looks(found, look):
                    page.update(screen(console, seen), refresh=True)
                    found = seen
        for seen in _looks(found, look) if watch and not paged else ():
            _print(console, seen, as_json)
            found = seen
    if paged or not watch:  # of a page the last look stays on the terminal
        _print(console, found, as_json)
    sys.exit(found.verdict.value)


def _print(console: Console, status: Status, as_json: bool) -> None:
    from fedsub.status.shown import as_json as to_json
    from fedsub.status.shown import show

    if as_json:
        click.echo(to_json(status))
    else:
        show(console, status)


def _looks(found: Status, look: Callable[[], Status]) -> Iterator[Status]:
    """Yield what was found, and what is found from then on until it has ended."""
    yield found
    while found.state in ("going on", "elsewhere", "not begun"):
        time.sleep(EVERY)
        yield (found := look())


def _serve(where: str, look: Callable[[], Status], names: bool) -> None:
    """Answer questions until Ctrl-C or SIGTERM; a folder that is none is refused before."""
    from fedsub.status.endpoint import Endpoint, address

    at = address(where)
    look()
    with Endpoint(at, look, names) as endpoint:
        click.echo(f"{endpoint.url}: a page, /metrics, /health and /ready; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            endpoint.serve()
