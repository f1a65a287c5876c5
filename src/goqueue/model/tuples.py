"""`NamedTuple` as `typing` has it, for a fifth of what it costs a start.

`typing.NamedTuple` compiles a constructor for every class, and each of its annotations, when the
class is made. A server that starts makes some 170 of them and has used a few when it acknowledges
its first message. Here the constructor is compiled with the first instance, and annotations stay
the text that they are.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import NamedTuple

try:
    from _collections import _tuplegetter  # type: ignore[import-not-found]
except ImportError:  # it is CPython's own

    def _tuplegetter(at: int, doc: str) -> property:
        return property(itemgetter(at), doc=doc)


__all__ = ["NamedTuple"]

_tuple_new: Final = tuple.__new__


class _Methods:
    """What every class has; in the words of `collections.namedtuple`."""

    @classmethod
    def _make(cls: Any, iterable: Iterable[Any]) -> Any:
        made = _tuple_new(cls, iterable)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **changes: Any) -> Any:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self: Any) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self: Any) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({said})"

    def __getnewargs__(self: Any) -> tuple[Any, ...]:
        return tuple(self)


_METHODS: Final = {
    name: method
    for name, method in vars(_Methods).items()
    if name in {"_make", "_replace", "_asdict", "__repr__", "__getnewargs__"}
}


def _first_new(cls: type[Any], /, *arguments: Any, **named: Any) -> Any:
    """Make the first instance of a class, and its constructor before."""
    owner: Any = next(each for each in cls.__mro__ if "_field_defaults" in vars(each))
    owner.__new__ = staticmethod(_constructor(owner.__name__, owner._fields, owner._field_defaults))
    return owner.__new__(cls, *arguments, **named)


def _constructor(
    name: str, fields: tuple[str, ...], defaults: Mapping[str, Any]
) -> Callable[..., Any]:
    listed = "".join(f"{field}, " for field in fields)
    source = f"lambda _cls, {listed}: _tuple_new(_cls, ({listed}))"
    known = {"_tuple_new": _tuple_new, "__builtins__": {}, "__name__": f"namedtuple_{name}"}
    made: Any = eval(source, known)  # noqa: S307 - of the names of fields, which Python has parsed
    made.__name__, made.__qualname__ = "__new__", f"{name}.__new__"
    made.__defaults__ = tuple(defaults.values())
    return made  # type: ignore[no-any-return]


class _Maker(type):
    """Makes of a class body a tuple with names."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        fields = tuple(body.get("__annotations__", {}))
        defaults = {field: body.pop(field) for field in fields if field in body}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name}: a field without a default follows one with a default")
        getters = {field: _tuplegetter(at, "") for at, field in enumerate(fields)}
        kept = tuple(base for base in bases if not isinstance(base, _Maker))
        return type(
            name,
            (tuple, *kept),
            {
                "__slots__": (),
                "__new__": _first_new,
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
                **_METHODS,
                **getters,
                **body,
            },
        )


if not TYPE_CHECKING:
    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {"__doc__": "See `typing.NamedTuple`."})
