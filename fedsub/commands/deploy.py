"""The command line of deployments: rehearse one, make what it needs, start runs on it."""

from functools import partial
from pathlib import Path

import click
from rich.console import Console

from fedsub.commands.declared import Command
from fedsub.commands.interruption import say_interrupted
from fedsub.commands.invite import invite
from fedsub.commands.nearest import Group
from fedsub.commands.people import people
from fedsub.commands.roster import roster
from fedsub.commands.seal import seal
from fedsub.commands.simulate import simulate
from fedsub.commands.verify import verify
from fedsub_core.config.idle import check_given
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import ConfigError
from fedsub_core.options import key_values


def _settings(such: str) -> Command:
    """Return the option ``--set``, with examples."""
    told = f"any key of a run, such as {such}"
    return click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=told)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def deploy() -> None:
    """Run on real devices: SuperLink, SuperNodes, TLS and keys.

    Start with `fedsub deploy local`, a rehearsal. Devices without Python need Flower 1.42.
    """


for command in (roster, verify, invite, people, seal, simulate):
    deploy.add_command(command)


@deploy.command(short_help="Rehearse a complete deployment on this machine.")
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="number of SuperNodes, one for each of the first clients in the data",
)
@click.option("--data", help="a federation's folder, or 'watch' for the built-in one")
@click.option("--out", help="folder in which the rehearsal's folder is created [default: runs]")
@click.option(
    "--capacities",
    help="share of the model that each SuperNode holds, such as 1,1/4,1/16 or 01=1/4; it tells the "
    "server its share [default: 1]",
)
@click.option(
    "--browser",
    "browsers",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="how many of the clients have the page in headless Chromium, with their recordings "
    "replayed as a phone's sensors give them; needs Flower 1.42 and `make web`",
)
@_settings("rounds=2, method=fedavg or fedsub.fusion=avg")
def local(
    config: str | None,
    clients: int,
    browsers: int,
    data: str | None,
    out: str | None,
    capacities: str | None,
    settings: tuple[str, ...],
) -> None:
    """Rehearse a deployment on this machine, with TLS and a key for each SuperNode.

    CONFIG is a TOML file with the keys of `fedsub run`. Its `beside` is ignored: use --set for it.
    It makes certificates and keys, starts SuperLink, SuperNodes and SuperExecs on loopback,
    runs all rounds, prints the results, and stops every process, also after Ctrl-C.
    """
    from fedsub.commands.progress import progress
    from fedsub.deploy.signals import Interrupted
    from fedsub.engines.page_rehearsal import PageRehearsal
    from fedsub.engines.rehearsal import Rehearsal
    from fedsub.report.report import REPORT_FILE
    from fedsub.report.tables import print_results
    from fedsub_core.config.named_code import check_deployed, check_named, note_named
    from fedsub_server.results import method_summaries

    console = Console()
    given = key_values(settings, "--set", "rounds=2")
    own = ("data", data), ("out", out), ("capacities", capacities)
    given |= {key: value for key, value in own if value is not None}
    resolved = read_config(config, {"beside": "", **given})
    check_given(resolved, given, "command line")
    check_deployed(resolved)
    if config is not None:
        check_named(resolved, config, given, lambda key, value: f"--set {key}={value}")
    note_named(resolved)
    with progress(console, "rounds", [resolved.method]) as tell:
        say = partial(console.print, highlight=False, soft_wrap=True, markup=False)

        def count(finished: int) -> None:
            tell(resolved.method, finished, resolved.rounds * len(resolved.methods))

        if browsers:
            rehearsal: Rehearsal = PageRehearsal(resolved, clients, browsers, say, count)
        else:
            rehearsal = Rehearsal(resolved, clients, say, count)
        say(f"Folder: {rehearsal.place.folder}")
        try:
            folder = rehearsal()
        except Interrupted as interrupted:
            say(f"{interrupted}; all processes have been ended")
            say_interrupted(interrupted, "A rehearsal begins anew:")
    print_results(console, method_summaries(folder))
    say(f"Run folder: {folder}")
    if (report := folder / REPORT_FILE).is_file():
        say(f"Report: {report}")


_FOLDER = click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="folder of certificates and keys; existing keys are never overwritten",
)


@deploy.command(short_help="Make the certificates and keys of a deployment.")
@_FOLDER
@click.option(
    "--name",
    "names",
    multiple=True,
    help="a DNS name or IP address by which devices reach the server; may be repeated",
)
@click.option(
    "--nodes", type=click.IntRange(min=0), default=0, help="number of device keys to create"
)
@click.option("--renew", is_flag=True, help="replace only the server's certificate and key")
@click.option(
    "--bound", is_flag=True, help="an authority for these names alone: for phones, which trust it"
)
def certificates(
    folder: Path, names: tuple[str, ...], nodes: int, renew: bool, bound: bool
) -> None:
    """Make a certificate authority, the server's certificate and secret, and keys for devices.

    Give each device only its own key and `ca.crt`. Keep `ca.key` off the server: whoever has it can
    set up servers that devices trust.

    With --renew the same authority signs a new certificate for the server, so devices need no
    change. The names stay the same, unless you give others. The old certificate is kept as `.old`.
    """
    from fedsub.deploy.certificates import make_certificates, renew_server
    from fedsub.deploy.keys import make_secret, node_key_files, refuse_existing

    if renew:
        if nodes:
            raise ConfigError("--renew creates no device keys: use `fedsub deploy key`")
        until = renew_server(folder, names).not_valid_after_utc
        click.echo(f"{folder}: new server.pem and server.key, valid until {until:%Y-%m-%d}")
        click.echo("Put both on the server and restart its SuperLink")
        return
    keys = [f"node-{n + 1:0{len(str(nodes))}d}" for n in range(nodes)]
    secret = folder / "superexec.secret"
    refuse_existing([secret, *(file for key in keys for file in node_key_files(folder, key))])
    make_certificates(folder, names, bound=bound)
    make_secret(secret)
    made = "ca.crt, ca.key, server.pem, server.key, superexec.secret"
    click.echo(f"{folder}: {made} for {', '.join(names)}")
    if keys:
        _make_keys(folder, keys)


@deploy.command(short_help="Make keys for more devices.")
@_FOLDER
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def key(folder: Path, names: tuple[str, ...]) -> None:
    """Make a key for each device NAME: `nodes/NAME`, and `nodes/NAME.pub` to register."""
    from fedsub.deploy.keys import node_key_files, refuse_existing

    refuse_existing([file for name in names for file in node_key_files(folder, name)])
    _make_keys(folder, list(dict.fromkeys(names)))


def _make_keys(folder: Path, names: list[str]) -> None:
    from fedsub.deploy.keys import make_node_key, node_key_files

    for name in names:
        make_node_key(node_key_files(folder, name)[0])
    click.echo(f"{folder / 'nodes'}: {len(names)} keys; register each .pub with")
    click.echo(f"  flwr supernode register {node_key_files(folder, names[0])[1]} --name CLIENT-ID")


@deploy.command(short_help="Write the Flower app that `flwr run` starts.")
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="folder to create, for one pyproject.toml",
)
@_settings("rounds=100, folder=/var/lib/fedsub/run or fedsub.fusion=avg")
def app(config: str | None, out: Path, settings: tuple[str, ...]) -> None:
    """Write the Flower app that `flwr run OUT` starts on a SuperLink.

    CONFIG is a TOML file with the keys of `fedsub run`. Its `beside` is ignored: use --set for it.
    The app names FedSub's packages, which are installed on the server and on the devices. It
    contains no code.
    """
    from fedsub.deploy.flower_app import write_app

    given = key_values(settings, "--set", "rounds=2")
    resolved = read_config(config, {"beside": "", **given})
    check_given(resolved, given, "--set")
    if resolved.folder and not Path(resolved.folder).is_absolute():
        raise ConfigError(
            f"folder: got {resolved.folder!r}, expected an absolute path on the server, such as "
            "/var/lib/fedsub/run: a relative one depends on where its SuperExec was started"
        )
    write_app(out, resolved)
    click.echo(f"{out}: start it with")
    click.echo(f"  flwr run {out} --stream")
    if not resolved.folder:
        click.echo(
            "A failed run can be resumed only if it has a folder of its own: --set folder=/a/path"
        )


@deploy.command(short_help="Write the keys of a run into an app's pyproject.toml.")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def defaults(path: Path) -> None:
    """Write all keys of a run, with their defaults, into the pyproject.toml of a Flower app.

    Flower lets a run change only keys that are in this file. The rest of the file is not changed.
    Use it on FedSub's own pyproject.toml after you add a key.
    """
    from fedsub.deploy.flower_app import TABLE, write_defaults

    write_defaults(path)
    click.echo(f"{path}: {TABLE} holds every key of a run")
