"""What a client raises: the broker's own errors by their classes, and a few that are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClientError(GoQueueError):
    """Something that the client itself has to say."""


class BrokerUnavailableError(ClientError):
    """No broker answers at the addresses, or it went away during a call."""

    retriable = True


class ConnectionLostError(BrokerUnavailableError):
    """One connection ended, or could not be made; another one may do better."""


class UnexpectedAnswerError(ConnectionLostError):
    """What came back is not an answer to what was asked; the connection is closed."""


class ForeignServerError(ClientError):
    """Whatever listens at the address, it does not speak Kafka's protocol."""


class LoginError(ClientError):
    """The broker does not let this client in, or this client does not trust it."""


class BufferFullError(ClientError):
    """As many messages wait to be sent as the settings allow, and `when_full` is `raise`."""

    retriable = True


class DeliveryTimeoutError(ClientError):
    """A message was not acknowledged in time. It may have been stored all the same."""


class TransactionOutcomeUnknownError(ClientError):
    """Nobody answered a commit: it may have succeeded, and must not simply be done again."""


class ClientClosedError(ClientError):
    """The client was closed; make another one."""


class ForeignLoopError(ClientError):
    """An `AsyncClient` is used in an event loop other than the one where it was first used."""


class BrokerError(ClientError):
    """The broker refuses with an error that this version of the client has no class for."""


def error_named(name: str, message: str, details: Mapping[str, str]) -> GoQueueError:
    """The broker's error, as the class that it had there, with what it carried."""
    kind = getattr(model, name, None)
    if not (isinstance(kind, type) and issubclass(kind, GoQueueError)):
        return BrokerError(message)
    made = kind.__new__(kind)  # some ask for more than a sentence
    Exception.__init__(made, message)
    for key, text in details.items():
        setattr(made, key, int(text) if text.lstrip("-").isdecimal() else text)
    return made
