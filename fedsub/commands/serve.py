"""``fedsub serve``: a federation that goes on for months."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fedsub.commands.nearest import Group
from fedsub.commands.status import WIDE
from fedsub_core.errors import ConfigError


class FolderFirst(Group):
    """A group whose first argument may be a folder: that is what is served."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begin with; a folder is served."""
        if args and args[0] not in self.commands and Path(args[0]).is_dir():
            args = ["start", *args]
        return super().resolve_command(ctx, args)


@click.group(
    cls=FolderFirst,
    context_settings={"help_option_names": ["-h", "--help"]},
    short_help="Keep a federation going for months.",
)
def serve() -> None:
    """Keep a federation going: start rounds when they are due, and again after any failure.

    `fedsub serve new FOLDER` makes a service, and `fedsub serve FOLDER` serves it. The other
    commands take its folder, or, with a token in FEDSUB_TOKEN, the https:// address of --listen.
    """


_WHERE = click.argument("where", metavar="FOLDER|URL")
_CA = click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="with a URL: the ca.crt that signed its certificate",
)


@serve.command(short_help="Make a service's folder.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--when",
    required=True,
    help="when rounds begin: always, every 6 hours, every night at 2 Europe/Berlin, when 20 people "
    "have new samples; also between 22 and 6 Europe/Berlin",
)
@click.option(
    "--each", type=click.IntRange(1, 10_000), default=1, show_default=True,
    help="number of rounds each time",
)  # fmt: skip
@click.option(
    "--superlink", metavar="HOST:PORT", default="127.0.0.1:8000", show_default=True,
    help="the SuperLink's port for runs",
)  # fmt: skip
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="the ca.crt that signed the SuperLink's certificate (without it: the authorities that "
    "this machine trusts)",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="any key of a run, such as method=fedsub-ridge or min-clients=20",
)  # fmt: skip
def new(
    folder: Path,
    config: str | None,
    when: str,
    each: int,
    superlink: str,
    ca: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Make the FOLDER of a service. It is on the server, where its SuperExec may write.

    CONFIG is a TOML file with the keys of `fedsub run`. Its `beside` is ignored: use --set for it.
    `rounds` counts nothing here: a service has no last round.
    """
    from datetime import UTC, datetime

    from fedsub.service.schedule import Schedule
    from fedsub.service.service_folder import make_service
    from fedsub.service.state import Settings
    from fedsub_core.config.idle import check_given
    from fedsub_core.config.run_config import read_config
    from fedsub_core.options import key_values

    given = key_values(settings, "--set", "min-clients=20")
    if wrong := [key for key in ("rounds", "folder", "out") if key in given]:
        raise ConfigError(f"--set: got {wrong[0]}, expected no such key: a service sets it itself")
    resolved = read_config(config, {"beside": "", **given})
    check_given(resolved, given, "--set")
    schedule = Schedule.parse(when)
    link = Settings(schedule.text, each, superlink, str(ca.resolve()) if ca else "", {})
    make_service(folder, resolved, link)
    for line in schedule.odd_days(datetime.now(UTC)):
        click.echo(f"note: {line}")
    click.echo(f"{folder}: serve it with\n  fedsub serve {folder}")


@serve.command(short_help="Serve a folder, until it is stopped.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    help="also serve the page of `fedsub status`, and acts of who shows a token; on loopback "
    "unless HOST is given, which needs --certificate and --key",
)
@click.option(
    "--certificate", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="with --listen: the server's certificate, such as server.pem",
)  # fmt: skip
@click.option(
    "--key", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="with --listen: the key of that certificate, such as server.key",
)  # fmt: skip
@click.option("--names", is_flag=True, help="with --listen: show client ids")
def start(
    folder: Path, listen: str | None, certificate: Path | None, key: Path | None, names: bool
) -> None:
    """Serve FOLDER: `fedsub serve FOLDER` does the same.

    It ends only when it is stopped. Flower's run goes on meanwhile, and is found again.
    """
    from fedsub.service.serving import serve_folder

    if (certificate is None) != (key is None) or (listen is None and (certificate or names)):
        raise click.UsageError("--listen, --certificate, --key: expected all, or --listen alone")
    tls = (certificate, key) if certificate and key else None
    serve_folder(folder, listen, tls, names, lambda text: click.echo(text))


@serve.command(short_help="Let no round begin.")
@_WHERE
@click.option("--now", is_flag=True, help="stop the round that goes on, too; it is repeated later")
@_CA
def pause(where: str, now: bool, ca: Path | None) -> None:
    """Let no round begin, until `fedsub serve resume`."""
    click.echo(_perform(where, ca, "pause", {"now": True} if now else {}))


@serve.command(short_help="Let rounds begin again.")
@_WHERE
@_CA
def resume(where: str, ca: Path | None) -> None:
    """Let rounds begin again, and try at once what failed."""
    click.echo(_perform(where, ca, "resume", {}))


@serve.command("set", short_help="Change the schedule, and how patient rounds are.")
@_WHERE
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@_CA
def set_(where: str, settings: tuple[str, ...], ca: Path | None) -> None:
    """Change KEYs, from the next round on: when, each, min-clients, quorum, and others.

    An unknown KEY is refused with a list of all.
    """
    from fedsub_core.options import key_values

    click.echo(_perform(where, ca, "set", key_values(settings, "set", "when='every 6 hours'")))


@serve.command(short_help="Show the next round, the last starts, the last failure.")
@_WHERE
@_CA
def status(where: str, ca: Path | None) -> None:
    """Show the schedule, the next round, what it waits for, the last starts and the last failure.

    `fedsub status FOLDER` shows rounds and people, too.
    """
    click.echo(_perform(where, ca, "read", {}))


@serve.command(short_help="Make, list and revoke tokens.")
@_WHERE
@click.argument("name", required=False)
@click.option("--role", help="reader: look; operator: also pause, resume, set; owner: everything")
@click.option("--days", type=float, default=30.0, show_default=True, help="days until it ends")
@click.option("--revoke", is_flag=True, help="let nobody act with the token NAME any more")
@_CA
def token(
    where: str, name: str | None, role: str | None, days: float, revoke: bool, ca: Path | None
) -> None:
    """Make a token NAME, which is shown once. Without NAME: list tokens of a FOLDER."""
    if name is None:
        _list_tokens(Path(where))
    elif revoke:
        click.echo(_perform(where, ca, "revoke", {"name": name}))
    else:
        arguments = {"name": name, "role": role or "", "days": days}
        click.echo(_perform(where, ca, "token", arguments))


@serve.command(short_help="Show the audit log.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def audit(folder: Path) -> None:
    """Show who did what and when with the service in FOLDER, and what was refused."""
    from fedsub.service.audit import acts_of
    from fedsub.service.state import ServiceFile
    from fedsub_core.errors import RunError

    with ServiceFile(folder) as file:
        acts, broken = acts_of(file)
    rows = [(a.at, a.who, a.role, a.act, a.arguments, a.outcome) for a in acts]
    _print_table(("at", "who", "role", "act", "arguments", "outcome"), rows)
    if broken is not None:
        raise RunError(f"{folder}: line {broken} of the audit log was changed after it was written")


def _list_tokens(folder: Path) -> None:
    from datetime import UTC, datetime

    from fedsub.service.state import ServiceFile
    from fedsub.service.tokens import tokens_of

    with ServiceFile(folder) as file:
        tokens, now = tokens_of(file), datetime.now(UTC)
    rows = [
        (one.name, one.role, one.made, one.until, "ended" if one.ended(now) else "valid")
        for one in tokens
    ]
    _print_table(("name", "role", "made", "until", "state"), rows)


def _print_table(titles: tuple[str, ...], rows: list[Any]) -> None:
    from fedsub.status.shown import table

    console = Console()
    if not console.is_terminal:  # a pipe has no width
        console.width = WIDE
    console.print(table(titles, rows))


def _perform(where: str, ca: Path | None, act: str, arguments: dict[str, Any]) -> str:
    """Perform an act on a folder, or have it performed at a URL."""
    from fedsub.service.asking import ask, perform_here

    return ask(where, ca, act, arguments) if "://" in where else perform_here(where, act, arguments)
