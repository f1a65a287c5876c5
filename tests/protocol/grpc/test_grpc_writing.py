"""A stream that is ended in the middle of a write still ends as it should."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc import aio

from goqueue.protocols.grpc.consuming import whole_writes

METHOD = "/test/Stream"
COUNT = 100


class Cancelling(grpc.GenericRpcHandler):
    """Writes in tasks that are cancelled as soon as gRPC has the message, then ends the call."""

    def service(self, details: Any) -> Any:
        return grpc.unary_stream_rpc_method_handler(self._stream)

    async def _stream(self, request: bytes, context: Any) -> None:
        write: Any = whole_writes(context)
        for number in range(COUNT):
            writing = asyncio.create_task(write(b"%d" % number))
            for _ in range(3):  # the task begins, and so does the write within it
                await asyncio.sleep(0)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "over")


def test_writes_and_the_end_of_a_call_follow_on_writes_whose_caller_was_cancelled() -> None:
    async def scenario() -> None:
        server = aio.server()
        server.add_generic_rpc_handlers((Cancelling(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            method: Any = channel.unary_stream(METHOD)
            call = method(b"")
            read = [await call.read() for _ in range(COUNT)]
            assert read == [b"%d" % number for number in range(COUNT)]
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
        await server.stop(None)

    asyncio.run(asyncio.wait_for(scenario(), 60))
