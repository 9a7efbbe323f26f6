"""``fedsub new``: write what a person goes on with."""

from pathlib import Path

import click

from fedsub.commands.nearest import Group

#: What to do next, in the folder.
NEXT = """\
{folder}: a package with a method that works. Next:
  pip install -e {folder}
  fedsub run --method {name} --beside local,fedavg
{folder}/README.md explains each file, and how to test the package."""


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def new() -> None:
    """Write a package of your own."""


@new.command(short_help="Write a package with a new method.")
@click.argument("name")
@click.option(
    "--out", type=click.Path(path_type=Path), help="folder to create [default: fedsub-NAME]"
)
def method(name: str, out: Path | None) -> None:
    """Write a package with a method NAME: card, device half, server half, tests.

    The package can be installed with pip and runs at once. It contains Ditto, for you to change
    into your own method. No file of FedSub is edited.
    """
    from fedsub.new_method import write_package

    folder = write_package(name, out)
    click.echo(NEXT.format(folder=folder, name=name))
