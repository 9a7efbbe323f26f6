"""The resume command, told after an interruption."""

import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from fedsub.deploy.signals import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def told_how_to_go_on(arguments: Callable[[], Sequence[str]]) -> Iterator[None]:
    """End with the line that goes on where SIGINT or SIGTERM interrupt the ``with`` block.

    Parameters
    ----------
    arguments : returns the arguments of ``fedsub`` that go on, asked for once it is interrupted.
    """
    try:
        with interruptible():
            yield
    except KeyboardInterrupt as interrupted:
        say_interrupted(interrupted, "This goes on:", arguments())


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the ``with`` block, or at its end, where SIGINT, SIGTERM or SIGHUP come.

    A process that ends at once leaves what it was writing, such as people's rows.
    """
    came: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_IGN)  # a second one would stop the tidying up
        raise Interrupted(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # What nohup ignores stays ignored; what is not Python's cannot be set again.
    ours = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    if threading.current_thread() is not threading.main_thread():
        ours = {}
    try:
        for number in ours:
            signal.signal(number, interrupt)
        try:
            yield
        finally:
            # Where it came in a library's callback, what it raised there was lost.
            if came and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
                raise Interrupted(came[0])
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def say_interrupted(
    interrupted: KeyboardInterrupt, then: str, arguments: Sequence[str] | None = None
) -> NoReturn:
    """Say by what, `then` the line of `fedsub` with `arguments`, by default this one's; exit."""
    number = interrupted.number if isinstance(interrupted, Interrupted) else signal.SIGINT
    click.echo(f"Interrupted by {signal.Signals(number).name}. {then}", err=True)
    click.echo(shlex.join([_program(), *(arguments or sys.argv[1:])]), err=True)
    sys.exit(128 + number)


def _program() -> str:
    """Return ``fedsub``, or its path where a shell would not find this one."""
    called, found = Path(sys.argv[0]), shutil.which("fedsub")
    if not called.is_file() or (found is not None and Path(found).samefile(called)):
        return "fedsub"
    return str(called.absolute())
