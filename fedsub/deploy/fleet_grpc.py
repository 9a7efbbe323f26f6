"""The gRPC server for SuperNodes of Flower 1.39, on an event loop.

Flower's gRPC server gives each call a thread as soon as its headers have come, and refuses all
others while 1,000 have one. So whoever begins calls and never ends them, with or without a key,
keeps everybody out. Here connections come through `relay.py` and calls through `fleet_gate.py`.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio

from fedsub.deploy.callers import Callers
from fedsub.deploy.connections import PROOF_SECONDS, Connections
from fedsub.deploy.fleet_gate import Gate
from fedsub.deploy.relay import HOST, Relay, bound_socket
from fedsub_core.flower.superlink import parse_address, registered_keys

#: Workers; SQLAlchemy has 15 connections to the database, and more would wait for one. A single one
#: takes somewhat less of a core, and far longer where others share it.
_WORKERS = 16
#: What a SuperNode gives up after 5 s; while it waits, its node would count as gone.
_HEARTBEAT = "/SendNodeHeartbeat"
#: Calls of one connection at once, which gRPC demands only of who speaks HTTP/2 by its rules.
_STREAMS = 100
#: Flower's: a connection of which nothing has been heard for so long is asked whether it is there.
_KEEPALIVE_MS = 210_000


class FleetServer:
    """A gRPC server for SuperNodes, in place of the one that Flower's SuperLink makes.

    Parameters
    ----------
    servicer_and_add : Flower's answers, and what adds them to a server.
    address : where devices come, HOST:PORT.
    certificates : CA, certificate and key, PEM; None: without TLS.
    """

    def __init__(
        self,
        servicer_and_add: tuple[Any, Callable[[Any, Any], None]],
        address: str,
        most_bytes: int,
        certificates: tuple[bytes, bytes, bytes] | None,
        interceptors: Sequence[grpc.ServerInterceptor],
        connections: Connections,
    ) -> None:
        host, port = parse_address(address)
        self._socket = bound_socket(host, port)
        named = f"[{host}]" if ":" in host else host
        self.bound_address = f"{named}:{self._socket.getsockname()[1]}"
        self._servicer, self._add = servicer_and_add
        self._certificates = certificates
        self._interceptors, self._connections = interceptors, connections
        self._options = [
            ("grpc.max_concurrent_streams", _STREAMS),
            ("grpc.max_send_message_length", most_bytes),
            ("grpc.max_receive_message_length", most_bytes),
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.keepalive_permit_without_calls", 0),
            ("grpc.server_handshake_timeout_ms", int(PROOF_SECONDS * 1000)),
        ]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._started, self._stopped = threading.Event(), threading.Event()
        self._grace: float | None = None
        self._failed: BaseException | None = None

    def start(self) -> None:
        """Start to answer in a thread of its own; raises the error that prevents it."""
        self._thread.start()
        self._started.wait()
        if self._failed is not None:
            raise self._failed

    def stop(self, grace: float | None) -> threading.Event:
        """Begin to end, calls within `grace` s; return the event that is set at the end."""
        self._grace = grace
        if self._loop is not None and not self._stopped.is_set():
            self._loop.call_soon_threadsafe(self._ending.set)
        return self._stopped

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
            raise
        finally:
            self._started.set()
            self._stopped.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        with (
            ThreadPoolExecutor(_WORKERS, "fleet") as pool,
            ThreadPoolExecutor(1, "fleet-beats") as beats,
        ):
            states, closed = self._servicer.state_factory, self._servicer.enable_supernode_auth
            # Neither a heartbeat nor a look at the keys waits for all calls that came before.
            callers = Callers(registered_keys(states.state) if closed else None, beats)

            def pools(method: str) -> ThreadPoolExecutor:
                return beats if method.endswith(_HEARTBEAT) else pool

            gate = Gate(self._interceptors, callers, self._connections, pools)
            server = grpc.aio.server(interceptors=[gate], options=self._options)
            self._add(self._servicer, server)
            if self._certificates is None:
                port = server.add_insecure_port(f"{HOST}:0")
            else:
                authority, certificate, key = self._certificates
                credentials = grpc.ssl_server_credentials([(key, certificate)], authority)
                port = server.add_secure_port(f"{HOST}:0", credentials)
            await server.start()
            self.relay = Relay(self._connections, [self._socket], (HOST, port))
            await self.relay.start()
            self._started.set()
            await self._ending.wait()
            self.relay.close()
            await server.stop(self._grace)
