"""Our `NamedTuple` beside `typing`'s, which it must not be told apart from."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any, Generic, Self, TypeVar

import msgspec
import pytest

from goqueue.model.tuples import NamedTuple

T = TypeVar("T")


class Ours(NamedTuple):
    """A place."""

    topic: str
    partition: int
    leader: int | None = None
    replicas: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.topic}-{self.partition}"


class Theirs(typing.NamedTuple):
    """A place."""

    topic: str
    partition: int
    leader: int | None = None
    replicas: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.topic}-{self.partition}"


class Single(NamedTuple):
    only: int


class Box(NamedTuple, Generic[T]):
    held: T


class Named(Ours):
    """A class that is derived from one before that has an instance."""

    def __new__(cls, topic: str) -> Self:
        return super().__new__(cls, topic.upper(), 0)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("t", 1), {}),
    (("t", 1, 2, (3,)), {}),
    (("t",), {"partition": 1, "replicas": (2, 3)}),
    ((), {"leader": 1, "partition": 2, "topic": "u"}),
    ((), {}),
    (("t",), {}),
    (("t", 1, 2, (), 5), {}),
    (("t", 1), {"topic": "u"}),
    (("t", 1), {"unknown": 1}),
]


def outcome(made: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    try:
        return tuple(made(*arguments, **named))
    except TypeError as error:
        return str(error).replace(made.__qualname__, "")


@pytest.mark.parametrize(("arguments", "named"), CALLS)
def test_it_is_made_and_refused_alike(arguments: Any, named: Any) -> None:
    assert outcome(Ours, arguments, named) == outcome(Theirs, arguments, named)


def test_its_instances_do_what_tuples_with_names_do() -> None:
    ours: Any = Ours("t", 1, replicas=(2,))
    theirs: Any = Theirs("t", 1, replicas=(2,))
    assert ours == theirs
    assert list(ours) == ["t", 1, None, (2,)]
    assert hash(ours) == hash(theirs)
    assert (ours.topic, ours.replicas, ours[1], ours.label) == ("t", (2,), 1, "t-1")
    assert repr(ours).replace("Ours", "Theirs") == repr(theirs)
    assert ours._replace(leader=7) == theirs._replace(leader=7)
    assert type(ours._replace(leader=7)) is Ours
    assert ours._asdict() == theirs._asdict()
    assert not hasattr(ours, "__dict__")
    assert pickle.loads(pickle.dumps(ours)) == copy.deepcopy(ours) == ours
    assert type(copy.copy(ours)) is Ours
    match ours:
        case Ours(topic, partition):
            assert (topic, partition) == ("t", 1)
    with pytest.raises(AttributeError):
        ours.topic = "u"
    with pytest.raises(ValueError, match="unexpected field names"):
        ours._replace(other=1)
    with pytest.raises(TypeError, match="Expected 4 arguments, got 1"):
        Ours._make(["t"])


def test_its_class_says_the_same_of_itself() -> None:
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__slots__"):
        assert getattr(Ours, name) == getattr(Theirs, name), name
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert Ours.__mro__[1:] == Theirs.__mro__[1:]
    assert (Ours.__module__, Ours.__qualname__) == (__name__, "Ours")


def test_msgspec_takes_it_for_one() -> None:
    wire = msgspec.json.encode(Ours("t", 1))
    assert wire == msgspec.json.encode(Theirs("t", 1))
    assert msgspec.json.decode(wire, type=Ours) == Ours("t", 1)
    assert msgspec.json.decode(b'["t",1]', type=Ours) == Ours("t", 1)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'["t","1"]', type=Ours)


def test_one_field_generic_ones_and_derived_ones() -> None:
    assert Single(4) == (4,)
    assert Box[int](5).held == 5
    assert Named("x") == ("X", 0, None, ())
    assert type(Named("x")) is Named


def test_a_field_without_a_default_behind_one_with_is_refused() -> None:
    with pytest.raises(TypeError, match="without a default"):

        class Wrong(NamedTuple):
            first: int = 0
            second: int  # type: ignore[misc]
