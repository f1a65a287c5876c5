"""The arguments of a call on their way through a message: JSON, checked against the function.

    {"args": ["1.png"], "kwargs": {"width": 100}}

The task's name is in the header `goqueue-task`. Either field may be missing, so that a producer in
any language can call a task. What JSON has no type for (times, UUIDs, enums, bytes, dataclasses)
becomes a string or an object, and by the annotation of its parameter what it was.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import msgspec

from goqueue.worker.errors import Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TASK_HEADER: Final = "goqueue-task"

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Call)


class Arguments:
    """What one function takes."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._signature = inspect.signature(function)

    def encode(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bytes:
        """The value of a message.

        Raises:
            TypeError: the function does not take these arguments, or JSON cannot hold one.
        """
        args, kwargs = list(args), dict(kwargs)
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}{self._signature}: {error}") from None
        try:
            return _ENCODER.encode(_Call(args, kwargs))
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(
                f"{self._name}: arguments are sent as JSON, and one cannot be: {error}"
            ) from error

    def decode(self, value: bytes | None) -> inspect.BoundArguments:
        """The arguments out of a message.

        Raises:
            Reject: it holds none, or others than the function takes.
        """
        try:
            call = _DECODER.decode(value or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Reject(
                f"{self._name}: the value is not a call: {error}; expected JSON such as "
                '{"args": [], "kwargs": {}}'
            ) from None
        try:
            bound = self._signature.bind(*call.args, **call.kwargs)
        except TypeError as error:
            raise Reject(f"{self._name}{self._signature}: {error}") from None
        for name, kind in self._types.items():
            if name in bound.arguments:
                bound.arguments[name] = self._converted(name, bound.arguments[name], kind)
        return bound

    def _converted(self, name: str, value: object, kind: Any) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise Reject(f"{self._name}: argument {name}: {error}") from None

    @cached_property
    def _types(self) -> dict[str, Any]:
        """The parameters whose annotations say what JSON is to become."""
        try:
            hints = get_type_hints(self._function)
        except Exception:  # noqa: BLE001 - names that only type checkers see
            return {}
        return {
            name: hints[name]
            for name, parameter in self._signature.parameters.items()
            if name in hints and parameter.kind not in _VARIADIC and _is_convertible(hints[name])
        }


def _is_convertible(kind: Any) -> bool:
    try:
        info = msgspec.inspect.type_info(kind)
    except Exception:  # noqa: BLE001 - a type that msgspec does not know; what it raises differs
        return False
    return not isinstance(info, msgspec.inspect.AnyType | msgspec.inspect.CustomType)
