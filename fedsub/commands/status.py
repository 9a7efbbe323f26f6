"""``fedsub status``: how a run, a deployment or a study is doing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

import click
from rich.console import Console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fedsub.status.facts import Status, Verdict

#: Seconds between two looks of --watch.
EVERY = 2.0
#: States of what is looked at again.
UNFINISHED = ("starting", "going on", "elsewhere", "not begun", "waiting", "paused")
#: Columns of a table that is printed to no terminal.
WIDE = 220


@click.command(short_help="Show how a run, a deployment or a study is doing.")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option(
    "--superlink",
    metavar="HOST:PORT",
    help="instead of FOLDER: ask a SuperLink, at the address that accepts runs, about its nodes "
    "and runs",
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="with --superlink: the ca.crt that signed its certificate (without it: the authorities "
    "that this machine trusts)",
)
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
    folder: Path | None,
    superlink: str | None,
    ca: Path | None,
    as_json: bool,
    watch: bool,
    certificate: Path | None,
    serve: str | None,
    names: bool,
) -> None:
    """Show the state of what is in FOLDER: a run, a deployment or a study.

    It shows the round, the time left, who takes part, who is waited for, what was refused and why,
    bytes, disk space, and what needs attention. It only reads the folder, so it does not disturb
    the run. With --superlink it shows what a SuperLink on another machine knows: its nodes and its
    runs.

    \b
    The exit code says whether all is well:
      0  starting, going on or finished, and nothing needs attention
      1  going on or finished, and something needs attention, which is shown
      2  unknown: no such folder, not a run's folder, damaged, or no SuperLink answers
      3  stopped before its end, or not started
    """  # noqa: D301  # click reads the backspace
    if names and serve is None:
        raise click.UsageError(
            "--names: got no --serve, expected it too; all other views show names anyway"
        )
    if serve is not None and (as_json or watch):
        raise click.UsageError("--serve: got --json or --watch too, expected only one of the three")
    _check_one_is_asked(folder, superlink, ca, certificate or serve)
    console = Console()
    if not console.is_terminal:  # a pipe has no width
        console.width = WIDE
    if superlink is not None:
        from fedsub.status import superlink as link

        signed = None if ca is None else ca.read_bytes()
        of_link = View(lambda: link.read_superlink(superlink, signed), link.show, link.as_json,
                       lambda console, status: link.page(status))  # fmt: skip
        _show(console, of_link, as_json, watch)
    assert folder is not None
    from fedsub.status import shown
    from fedsub.status.reading import read_status

    def look() -> Status:
        return read_status(folder, certificate)

    if serve is not None:
        _serve(serve, look, names, folder)
        return
    _show(console, View(look, shown.show, shown.as_json, shown.screen), as_json, watch)


class Told(Protocol):
    """The state of a run or of a SuperLink."""

    @property
    def state(self) -> str:
        """Whether it is going on."""

    @property
    def verdict(self) -> Verdict:
        """Whether it is well."""


T = TypeVar("T", bound=Told)


@dataclass(frozen=True)
class View(Generic[T]):
    """How a state is read, and shown: printed, as JSON, as a page of a terminal."""

    look: Callable[[], T]
    show: Callable[[Console, T], None]
    as_json: Callable[[T], str]
    screen: Callable[[Console, T], RenderableType]

    def tell(self, console: Console, status: T, as_json: bool) -> None:
        """Print what was found."""
        if as_json:
            click.echo(self.as_json(status))
        else:
            self.show(console, status)

    def looks(self, found: T) -> Iterator[T]:
        """Yield looks at a deployment, from the first to that in which it has ended."""
        yield found
        while found.state in UNFINISHED:
            time.sleep(EVERY)
            yield (found := self.look())


def _check_one_is_asked(
    folder: Path | None, superlink: str | None, ca: Path | None, of_folder: object
) -> None:
    if (folder is None) == (superlink is None):
        got = "neither" if folder is None else "both"
        raise click.UsageError(f"FOLDER, --superlink: got {got}, expected one of them")
    if superlink is None and ca is not None:
        raise click.UsageError("--ca: got no --superlink, expected it too")
    if superlink is not None and of_folder is not None:
        raise click.UsageError("--superlink: got --serve or --certificate too, which want a FOLDER")


def _show(console: Console, view: View[T], as_json: bool, watch: bool) -> NoReturn:
    """Show it, once or until it has ended, and leave with its exit code."""
    from rich.live import Live

    found = view.look()
    paged = watch and console.is_terminal and not as_json
    # Ctrl-C ends the watching, whatever it interrupts.
    with suppress(KeyboardInterrupt):
        if paged:
            with Live(console=console, screen=True, auto_refresh=False) as page:
                for seen in view.looks(found):
                    page.update(view.screen(console, seen), refresh=True)
                    found = seen
        for seen in view.looks(found) if watch and not paged else ():
            view.tell(console, seen, as_json)
            found = seen
    if paged or not watch:  # of a page the last look stays on the terminal
        view.tell(console, found, as_json)
    sys.exit(found.verdict.value)


def _serve(where: str, look: Callable[[], Status], names: bool, folder: Path) -> None:
    """Answer questions until Ctrl-C or SIGTERM; a folder that is none is refused before."""
    from fedsub.service.endpoint import guard_of
    from fedsub.status.endpoint import Endpoint, address

    at = address(where)
    look()
    with Endpoint(at, look, names, guard_of(folder, at[0])) as endpoint:
        click.echo(f"{endpoint.url}: a page, /metrics, /health and /ready; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            endpoint.serve()
