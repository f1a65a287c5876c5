"""Names of a tenant's clients in gRPC messages, translated in one place around the handlers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from google.protobuf.message_factory import GetMessageClass
from grpc.aio import AbortError

from goqueue.wire.grpc.contract import ERROR_KEY
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from google.protobuf.descriptor import Descriptor
    from grpc import StatusCode

    from goqueue.access.tenants.namespace import Namespace
    from goqueue.protocols.permissions import Permissions

    Trailers: TypeAlias = Iterable[tuple[str, str | bytes]]

_NAMES: Final = frozenset({"topic", "group", "transactional_id"})
_LISTS: Final = frozenset({"topics"})
_NAMED: Final = frozenset(
    {
        "Topic",
        "CreateTopicRequest",
        "TopicRequest",
        "ConfigureTopicRequest",
        "GrowTopicRequest",
        "Group",
        "GroupRequest",
    }
)
"""Messages whose `name` is that of a topic or a group."""
_ERROR: Final = "Error"


def namespace_of_call(context: Any, may: Permissions) -> Namespace | None:
    """The names of a client of a tenant; None for others, and where another node has translated."""
    tenant = may.principal.tenant
    if tenant is None or getattr(context, "principal", None) is not None:
        return None
    from goqueue.access.tenants.namespace import namespace_of  # noqa: PLC0415 - of tenants alone

    return namespace_of(tenant)


def message_inside(message: Any, namespace: Namespace) -> Any:
    """A request in the names inside."""
    _rename(message, namespace.inside, str)
    return message


def message_outside(message: Any, namespace: Namespace, method: str) -> Any:
    """An answer to a method in the names that the client knows."""
    if isinstance(message, bytes):  # as another node has sent it
        return message_outside(_answer(method).FromString(message), namespace, method)
    if message is not None:
        _rename(message, namespace.outside, namespace.text_outside)
    return message


def error_outside(error: pb.Error, namespace: Namespace) -> pb.Error:
    """What is said of a call that was refused, in the names that the client knows."""
    _rename(error, namespace.outside, namespace.text_outside)
    return error


@cache
def _answer(method: str) -> Any:
    _, service, name = method.split("/")
    found = pb.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods_by_name[name]
    return GetMessageClass(found.output_type)


def _rename(message: Any, rename: Callable[[str], str], text: Callable[[str], str]) -> None:
    for name, kind in _fields(message.DESCRIPTOR).items():
        value = getattr(message, name)
        if kind == "name":
            if value:
                setattr(message, name, rename(value))
        elif kind == "names":
            value[:] = [rename(each) for each in value]
        elif kind == "text":
            setattr(message, name, text(value))
        elif kind == "messages":
            for each in value:
                _rename(each, rename, text)
        elif message.HasField(name):
            _rename(value, rename, text)


@cache
def _fields(kind: Descriptor) -> dict[str, str]:
    """The fields of a message that are names, or hold some."""
    found: dict[str, str] = {}
    for field in kind.fields:
        if field.message_type is not None:
            if not field.message_type.GetOptions().map_entry and _fields(field.message_type):
                found[field.name] = "messages" if field.is_repeated else "message"
        elif field.name in _NAMES or (field.name == "name" and kind.name in _NAMED):
            found[field.name] = "name"
        elif field.name in _LISTS and field.is_repeated:
            found[field.name] = "names"
        elif field.name == "message" and kind.name == _ERROR:
            found[field.name] = "text"
    return found


class TenantContext:
    """The context of a call of a tenant's client: what is written to it is translated.

    Also how another node has ended the call, which leaves the names to this one.
    """

    def __init__(self, context: Any, namespace: Namespace, method: str) -> None:
        self._context = context
        self._namespace = namespace
        self._method = method

    async def write(self, message: Any) -> None:
        """Send an answer of a stream."""
        await self._context.write(message_outside(message, self._namespace, self._method))

    async def abort(
        self, code: StatusCode, details: str = "", trailing_metadata: Trailers = ()
    ) -> NoReturn:
        """End the call with a status."""
        told = tuple((name, self._trailer(name, value)) for name, value in trailing_metadata)
        await self._context.abort(code, self._namespace.text_outside(details), told)
        raise AbortError

    def set_details(self, details: str) -> None:
        """Say why the call has ended."""
        self._context.set_details(self._namespace.text_outside(details))

    def _trailer(self, name: str, value: str | bytes) -> str | bytes:
        if name != ERROR_KEY or isinstance(value, str):
            return value
        return error_outside(pb.Error.FromString(value), self._namespace).SerializeToString()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
