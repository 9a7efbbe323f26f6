"""Flower's program for one message of a ClientApp, with an end to each of its waits.

With FEDSUB_INSTALLED_CODE=1 it runs the ClientApp of the installed package alone: no code that came
with a run. (Flower loads an app's code from the bundle that the server sent.)

Flower's waits two hours for what its SuperNode is still to download, and for ever for a SuperNode
that is gone. `warm_superexec.py` starts this one in its place, and forks it where it can.
"""

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fedsub_core.flower.clientapp import (
    ObjectPullError,
    ObjectUnavailableError,
    clientapp_calls,
    clientapp_program,
    loader_of_apps,
    objects,
)

#: Seconds in which one more of a message's objects, 5 MiB at most, has to come.
OBJECT_SECONDS = 300.0
#: Seconds for which a SuperNode is called that does not answer: one that is started again is let in
#: after a minute, and knows nothing of this task then.
CALL_SECONDS = 300.0
#: The variable by which only installed code is run, and the app that is.
INSTALLED_CODE, APP = "FEDSUB_INSTALLED_CODE", "fedsub_client.app:app"


def run_installed_code() -> None:
    """Let this process load the installed ClientApp alone, if the environment says so."""
    if os.environ.get(INSTALLED_CODE, "0") in ("", "0"):
        return

    def load_app(reference: str, error: type[Exception], folder: object) -> Any:
        if reference != APP:
            raise error(
                f"clientapp: got {reference!r}, expected {APP!r}: this device runs no code that "
                f"comes with a run ({INSTALLED_CODE}=1)"
            )
        module, _, name = APP.partition(":")
        return getattr(import_module(module), name)

    loader_of_apps("load_app").load_app = load_app


def bound_waits() -> None:
    """Put bounds on this process's waits: for objects, and for its SuperNode."""
    run_installed_code()
    module, calls = objects("pull_objects"), clientapp_calls("make_simple_http_retry_invoker")
    pull_objects, make_invoker = module.pull_objects, calls.make_simple_http_retry_invoker

    def bounded_pull(ids: list[str], pull: Callable[[str], bytes], **keys: Any) -> Any:
        return pull_objects(ids, impatient(pull), **keys)

    def bounded_invoker() -> Any:
        made = make_invoker()
        made.max_time = CALL_SECONDS
        return made

    module.pull_objects, calls.make_simple_http_retry_invoker = bounded_pull, bounded_invoker


def impatient(
    pull: Callable[[str], bytes], clock: Callable[[], float] = time.monotonic
) -> Callable[[str], bytes]:
    """Return `pull` with a time limit: it fails once no object has come for OBJECT_SECONDS."""
    last = clock()

    def pulled(identity: str) -> bytes:
        nonlocal last
        try:
            content = pull(identity)
        except ObjectUnavailableError:
            if clock() - last > OBJECT_SECONDS:
                reason = f"no object of the message has come for {OBJECT_SECONDS:.0f} s"
                raise ObjectPullError(identity, reason) from None
            raise
        last = clock()
        return content

    return pulled


def main() -> None:
    """Run Flower's program, with its own options."""
    program = clientapp_program()
    bound_waits()
    program.flwr_clientapp()


if __name__ == "__main__":
    main()
