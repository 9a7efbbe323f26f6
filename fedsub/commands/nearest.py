"""Groups of commands: the nearest is named for one that is none, and interruptions are answered."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import click

from fedsub.commands.interruption import interruptible, say_interrupted


class Group(click.Group):
    """A group of commands; one that it lacks may be another group's, and is looked for there."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; interrupted, it ends with the line that begins it again."""
        try:
            with interruptible():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupted:
            say_interrupted(interrupted, "Nothing unfinished is left on the disk. To start again:")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begin with, as click does; its error names the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            found = dict(_commands(ctx.find_root().command, "fedsub"))
            near = get_close_matches(args[0], {*found.values()}, n=1)
            if not near:
                raise
            meant = [f"`{path}`" for path, name in found.items() if name in near]
            raise click.UsageError(
                f"{error.message} Did you mean {' or '.join(meant)}?", ctx
            ) from error


def _commands(group: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Yield all commands below one: how each is called, and its own name."""
    for name, command in (group.commands if isinstance(group, click.Group) else {}).items():
        yield f"{path} {name}", name
        yield from _commands(command, f"{path} {name}")
