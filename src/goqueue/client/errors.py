"""What a client raises: the broker's own errors by their classes, and a few that are its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from grpc import StatusCode

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError
from goqueue.wire.grpc.contract import ERROR_KEY
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpc.aio import AioRpcError

_GONE: Final = frozenset({StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED})


class ClientError(GoQueueError):
    """Something that the client itself has to say."""


class BrokerUnavailableError(ClientError):
    """No broker answers at the address, or it went away during a call."""

    retriable = True


class BufferFullError(ClientError):
    """As many messages wait to be sent as the settings allow, and `when_full` is `raise`."""

    retriable = True


class DeliveryTimeoutError(ClientError):
    """A message was not acknowledged in time. It may have been stored all the same."""


class TransactionOutcomeUnknownError(ClientError):
    """Nobody answered a commit: it may have succeeded, and must not simply be done again."""


class ClientClosedError(ClientError):
    """The client was closed; make another one."""


class BrokerError(ClientError):
    """The broker refuses with an error that this version of the client has no class for."""


_BY_NAME: Final = {
    name: kind
    for name, kind in inspect.getmembers(model, inspect.isclass)
    if issubclass(kind, GoQueueError)
}


def from_wire(error: pb.Error) -> GoQueueError:
    """The broker's error, as the class that it had there, with what it carried."""
    kind = _BY_NAME.get(error.name, BrokerError)
    made = kind.__new__(kind)
    Exception.__init__(made, error.message)
    for name, text in error.details.items():
        setattr(made, name, int(text) if text.lstrip("-").isdecimal() else text)
    return made


def raise_first(outcomes: Iterable[Any]) -> None:
    """Raise the first error of the outcomes of a request, if there is one."""
    for outcome in outcomes:
        if outcome.HasField("error"):
            raise from_wire(outcome.error)


def from_call(failure: AioRpcError, address: str) -> GoQueueError:
    """Why a call failed: what the broker said, or that there is none."""
    for key, value in failure.trailing_metadata() or ():
        if key == ERROR_KEY and isinstance(value, bytes):
            return from_wire(pb.Error.FromString(value))
    if failure.code() in _GONE:
        return BrokerUnavailableError(f"no answer from {address}: {failure.details()}")
    return BrokerError(f"{address} answers {failure.code().name}: {failure.details()}")


def is_lost(failure: AioRpcError) -> bool:
    """Whether a stream failed because of the connection, so that another one may do better.

    A write to a connection that is just breaking makes gRPC say INTERNAL; when the broker says so,
    it says more.
    """
    if failure.code() is StatusCode.INTERNAL:
        return all(key != ERROR_KEY for key, _ in failure.trailing_metadata() or ())
    return failure.code() in {StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.UNKNOWN}
