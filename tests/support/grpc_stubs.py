"""The gRPC services over one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.wire.grpc.v1 import goqueue_pb2_grpc as services

if TYPE_CHECKING:
    from grpc import aio


class Stubs:
    """The services over one connection."""

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        self.publish = services.PublishServiceStub(channel)
        self.consume = services.ConsumeServiceStub(channel)
        self.acks = services.AckServiceStub(channel)
        self.offsets = services.OffsetServiceStub(channel)
        self.transactions = services.TransactionServiceStub(channel)
        self.admin = services.AdminServiceStub(channel)
