"""``fedsub-superlink``: Flower's SuperLink, in which one device cannot lock the database for all.

A reply lists the objects that it is made of. Flower takes any number of them, and writes all in one
transaction: 30,000, which are 2 MB, keep everybody else from the database until they give up and
the run has failed. It also takes requests of 2 GB (1.39) or of any size (1.42). Here both have
bounds, far above what devices need: a model's numbers travel in objects of 5 MiB.

Who calls signs with a key. Flower 1.39 compares it with the node that a call names, but not with
the key that ``ActivateNode`` names: anybody who had a device's public key could say that the device
is there, for an hour at a time, in which the device itself is refused. 1.42 compares it. Neither
looks whose replies a node pushes. Here whoever is named in a call must be who signed it.

An answer that the network may have lost is given again (`lost_answers.py`).

Flower 1.39 answers SuperNodes over gRPC, 1.42 over HTTP: see ``fleet_door.py``.

Its database is asked for less (`quick_link.py`); its state can be in memory (`memory_link.py`).
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc

from fedsub.deploy.allowance import Allowance, why_refused
from fedsub.deploy.connections import Connections, most_connections
from fedsub.deploy.fleet_grpc import FleetServer
from fedsub.deploy.lost_answers import LostAnswers
from fedsub.deploy.memory_link import KeptNodes, MemoryLinkState
from fedsub.deploy.quick_link import QuickLinkState, wait_for_locks
from fedsub.deploy.superlink_options import own_options
from fedsub_core.errors import FedSubError
from fedsub_core.files import UMASK
from fedsub_core.flower.linkstate import InMemoryLinkState, SqlLinkState, replace_state
from fedsub_core.flower.modules import HTTP, demand_deployable
from fedsub_core.flower.superlink import (
    PUBLIC_KEY_HEADER,
    FleetServicer,
    command,
    fleet_handlers,
)
from fedsub_core.logs import set_up_logs

#: Bytes of one request of a device.
MOST_BYTES = 2**25
#: What HTTP calls gRPC's reasons to refuse.
HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
}


class GuardedServicer(FleetServicer):
    """Flower's answers to SuperNodes, behind those bounds."""

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.allowance, self.answers = Allowance(), LostAnswers()

    def RegisterNode(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Refuse to register a key that another one signs for."""
        demand_signers_own(request.public_key, context)
        return super().RegisterNode(request, context)

    def ActivateNode(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Refuse to let the node of a key in that another one signs for."""
        demand_signers_own(request.public_key, context)
        return super().ActivateNode(request, context)

    def PushMessages(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Refuse another node's reply, one of too many objects, or of more than may come now."""
        push_messages = super().PushMessages

        def push() -> Any:
            if refused := why_refused(request, self.allowance):
                context.abort(*refused)
            return push_messages(request, context)

        return self.answers.push(request, push)

    def PushObject(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take an object of a reply; that it was taken is said again."""
        push = super().PushObject
        return self.answers.push_object(request, lambda: push(request, context))

    def PullMessages(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Give the message that was not confirmed again, or the next one."""
        pull = super().PullMessages
        return self.answers.pull(request, lambda: pull(request, context))

    def ConfirmMessageReceived(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Note that a message has come."""
        self.answers.confirm(request)
        return super().ConfirmMessageReceived(request, context)


def demand_signers_own(key: bytes, context: grpc.ServicerContext) -> None:
    """Abort a call that names a key other than the one that signed it, as Flower has verified."""
    signed = [value for name, value in context.invocation_metadata() if name == PUBLIC_KEY_HEADER]
    if signed != [key]:
        said = "the public key: got one that did not sign this call, expected the signer's own"
        context.abort(grpc.StatusCode.PERMISSION_DENIED, said)


def guard_grpc() -> Any:
    """Put the guard into 1.39's module of the SuperLink's command, and return it.

    Raises RunError if Flower no longer has what is to be replaced.
    """

    def fleet_server(
        servicer_and_add_fn: Any,
        server_address: str,
        max_message_length: int,
        certificates: tuple[bytes, bytes, bytes] | None = None,
        interceptors: Sequence[grpc.ServerInterceptor] | None = None,
    ) -> FleetServer:
        return FleetServer(
            servicer_and_add_fn,
            server_address,
            max_message_length,
            certificates,
            interceptors or (),
            Connections(most_connections()),
        )

    ours = {
        "FleetServicer": GuardedServicer,
        "GRPC_MAX_MESSAGE_LENGTH": MOST_BYTES,
        "generic_create_grpc_server": fleet_server,
    }
    flower = command(*ours)
    for name, guard in ours.items():
        setattr(flower, name, guard)
    return flower


def guard_http(page: Path | None = None, invitations: Path | None = None) -> Any:
    """Put the guard before 1.42's answers to SuperNodes; return the module of its command.

    Parameters
    ----------
    page : folder of the page that devices' browsers load.
    invitations : folder of the invitations with which devices join.

    Raises RunError if Flower no longer has what is to be replaced.
    """
    # Flower's SuperLink brings both, and 1.39's guard needs neither.
    from fastapi import HTTPException

    from fedsub.deploy.fleet_door import serve
    from fedsub.deploy.visitors import visitors_of

    flower = command("uvicorn")
    handlers = fleet_handlers(
        "push_messages", "push_object", "pull_messages", "confirm_message_received"
    )
    push_messages, confirm = handlers.push_messages, handlers.confirm_message_received
    allowance, answers = Allowance(), LostAnswers()

    def again(answer: Any, flowers: Any) -> Any:
        return lambda request, **keys: answer(request, lambda: flowers(request=request, **keys))

    def push(request: Any, **keys: Any) -> Any:
        def once() -> Any:
            if refused := why_refused(request, allowance):
                code, said = refused
                raise HTTPException(HTTP_STATUS[code], said)
            return push_messages(request=request, **keys)

        return answers.push(request, once)

    def confirmed(request: Any, **keys: Any) -> Any:
        answers.confirm(request)
        return confirm(request=request, **keys)

    def run(app: Any, *, reload: bool, workers: int, **keys: Any) -> None:
        """Stand for uvicorn's; one worker, which is never loaded again, is what Flower asks for."""
        visitors = None if page is invitations is None else visitors_of(app, page, invitations)
        serve(app, MOST_BYTES, visitors, **keys)

    handlers.push_messages, handlers.confirm_message_received = push, confirmed
    handlers.push_object = again(answers.push_object, handlers.push_object)
    handlers.pull_messages = again(answers.pull, handlers.pull_messages)
    flower.uvicorn = SimpleNamespace(run=run)
    return flower


def main() -> None:
    """Run Flower's SuperLink, with its options and three more; its files are its owner's alone."""
    os.umask(UMASK)
    try:
        set_up_logs()
        release = demand_deployable()
        own, sys.argv[1:] = own_options(sys.argv[1:], release)
        flower = guard_http(own["page"], own["invitations"]) if release == HTTP else guard_grpc()
        wait_for_locks()
        replace_state(SqlLinkState, QuickLinkState)
        if own["memory"] is not None:
            MemoryLinkState.kept = KeptNodes(own["memory"])
            replace_state(InMemoryLinkState, MemoryLinkState)
        flower.flower_superlink()
    except FedSubError as error:
        sys.exit(f"fedsub-superlink: {error}")
