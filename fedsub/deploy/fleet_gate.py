"""The gate of gRPC: lets a device's call to Flower's handlers once all of it is there.

Who calls is known from the headers (`callers.py`): a stranger's call is refused before its message
is read. That of a device is awaited on the event loop, and takes a worker once it has come.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, NoReturn

import grpc
import grpc.aio

from fedsub.deploy.callers import CALL_SECONDS, CALLS_EACH, UNREGISTERED, Callers, Signed
from fedsub.deploy.connections import Connection, Connections
from fedsub_core.flower.superlink import PUBLIC_KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER


class _Refused(Exception):
    """The refusal of a call: a status code, and what is said to the caller."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class _Call:
    """The context of a call as Flower's handlers know it, for use in a worker."""

    def __init__(self, metadata: Sequence[tuple[str, str | bytes]], peer: str) -> None:
        self._metadata, self._peer = metadata, peer
        self.trailing: Sequence[tuple[str, str | bytes]] = ()
        self._code: grpc.StatusCode | None = None

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        return self._metadata

    def peer(self) -> str:
        return self._peer

    def set_trailing_metadata(self, trailing: Sequence[tuple[str, str | bytes]]) -> None:
        self.trailing = trailing

    def code(self) -> grpc.StatusCode | None:
        return self._code

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self._code = code
        raise _Refused(code, details)


def signed_by(metadata: Sequence[tuple[str, str | bytes]]) -> Signed | None:
    """Return the signature in a call's metadata; None unless each header is there once."""
    key, stamp, signature = (
        [value for name, value in metadata if name == header]
        for header in (PUBLIC_KEY_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)
    )
    match key, stamp, signature:
        case [[bytes() as signer], [str() as signed_at], [bytes() as proof]]:
            return Signed(signer, signed_at, proof)
    return None


def _work(handler: grpc.RpcMethodHandler, request: bytes | None, call: _Call) -> bytes:
    """Return a handler's answer to a request, in bytes; the part of a call that a worker does."""
    made: Any = request
    if handler.request_deserializer is not None:
        try:
            made = handler.request_deserializer(request)
        except Exception as error:  # of protobuf's, which differ by its implementation
            text = "the request: got bytes that are none of this method's"
            raise _Refused(grpc.StatusCode.INVALID_ARGUMENT, text) from error
    answer = handler.unary_unary(made, call)
    serialize = handler.response_serializer
    return bytes(answer if serialize is None else serialize(answer))


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """An interceptor that passes calls of registered devices once all of each has come.

    Parameters
    ----------
    pools : the workers for a method.
    """

    def __init__(
        self,
        interceptors: Sequence[grpc.ServerInterceptor],
        callers: Callers,
        connections: Connections,
        pools: Callable[[str], Executor],
    ) -> None:
        self._interceptors, self._callers = interceptors, callers
        self._connections, self._pools = connections, pools

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """Return a handler that answers by :meth:`_answer`; None for an unknown method."""
        handler = await continuation(details)
        if handler is None:
            return None
        return grpc.stream_unary_rpc_method_handler(partial(self._answer, handler, details))

    async def _answer(
        self,
        handler: grpc.RpcMethodHandler,
        details: grpc.HandlerCallDetails,
        requests: AsyncIterator[bytes],
        context: Any,
    ) -> bytes:
        connection = self._connections.at(int(context.peer().rpartition(":")[2]))
        if connection is None:
            text = "a connection: got one that did not come through the port for SuperNodes"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)
            raise AssertionError
        signed = signed_by(details.invocation_metadata or ())
        call = _Call(details.invocation_metadata or (), context.peer())
        try:
            if signed is None:
                raise _Refused(grpc.StatusCode.UNAUTHENTICATED, "Missing authentication metadata")
            if not await self._callers.know(signed.key):
                # As Flower does with those whom it does not know.
                begins = details.method.endswith(("/ActivateNode", "/RegisterNode"))
                code = grpc.StatusCode.FAILED_PRECONDITION
                raise _Refused(code if begins else grpc.StatusCode.UNAUTHENTICATED, UNREGISTERED)
            return await self._let_in(signed, connection, handler, details, requests, call)
        except _Refused as refused:
            self._connections.refused(connection)
            await context.abort(refused.code, refused.text, tuple(call.trailing))
            raise AssertionError from refused

    async def _let_in(
        self,
        signed: Signed,
        connection: Connection,
        handler: grpc.RpcMethodHandler,
        details: grpc.HandlerCallDetails,
        requests: AsyncIterator[bytes],
        call: _Call,
    ) -> bytes:
        """Answer a call of a registered key, once its signature is verified."""
        for interceptor in reversed(self._interceptors):
            inner, step = handler, interceptor.intercept_service
            handler = step(lambda _, inner=inner: inner, details)
        if handler.request_deserializer is None:  # it refuses, and reads no request
            _work(handler, None, call)
        if not self._callers.use(signed):
            text = "the signature: got one that another call came with, expected a new one"
            raise _Refused(grpc.StatusCode.UNAVAILABLE, text)
        self._connections.prove(connection, signed.key)
        if not self._callers.enter(signed.key):
            text = f"calls: got over {CALLS_EACH} of this key at once, expected fewer"
            raise _Refused(grpc.StatusCode.UNAVAILABLE, text)
        job: Future[bytes] | None = None
        try:
            with self._connections.awaiting(connection):
                request = await asyncio.wait_for(anext(requests), CALL_SECONDS)
            job = self._pools(details.method).submit(_work, handler, request, call)
            return await asyncio.wrap_future(job)
        except (TimeoutError, StopAsyncIteration) as error:
            text = f"the request: got only a part of it in {CALL_SECONDS:.0f} s"
            raise _Refused(grpc.StatusCode.UNAVAILABLE, text) from error
        finally:
            # Who gives up a call does not take the worker from it that it has.
            if job is None or job.done():
                self._callers.leave(signed.key)
            else:
                loop = asyncio.get_running_loop()
                job.add_done_callback(
                    lambda _: loop.call_soon_threadsafe(self._callers.leave, signed.key)
                )
