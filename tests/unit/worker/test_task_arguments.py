"""Arguments through JSON: what a sender gives is what the function gets, or a clear refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from goqueue.worker.arguments import Arguments
from goqueue.worker.errors import Reject

if TYPE_CHECKING:
    from collections.abc import Callable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Size(Enum):
    SMALL = "s"


@dataclass
class Point:
    x: int
    y: int


class Opaque: ...


def anything(*args: Any, **kwargs: Any) -> None: ...


def resize(name: str, width: int = 100) -> None: ...


def typed(  # noqa: PLR0917 - one of each kind
    at: datetime, day: date, id_: UUID, price: Decimal, size: Size, raw: bytes, where: Point
) -> None: ...


def through(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    arguments = Arguments(function.__name__, function)
    bound = arguments.decode(arguments.encode(args, kwargs))
    return bound.args, bound.kwargs


@given(st.lists(JSON), st.dictionaries(st.text(), JSON))
def test_what_json_holds_arrives_as_it_was_sent(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert through(anything, *args, **kwargs) == (tuple(args), kwargs)


def test_annotations_restore_what_json_has_no_type_for() -> None:
    given = (
        datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
        date(2030, 1, 2),
        UUID(int=7),
        Decimal("1.10"),
        Size.SMALL,
        b"\x00\xff",
        Point(1, 2),
    )
    assert through(typed, *given) == (given, {})


def test_annotations_that_cannot_be_read_change_nothing() -> None:
    def hidden(value: Callable[[], None]) -> None: ...  # imported for type checkers only

    def custom(value: object, other: Opaque) -> None: ...

    assert through(hidden, [1]) == (([1],), {})
    assert through(custom, [1], other="x") == (([1], "x"), {})


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), (("a", 1, 2), {}), (("a",), {"height": 1})])
def test_a_sender_is_told_of_arguments_that_the_function_does_not_take(args, kwargs) -> None:
    with pytest.raises(TypeError, match=r"resize\(name: "):
        Arguments("resize", resize).encode(args, kwargs)


def test_a_sender_is_told_of_what_json_cannot_hold() -> None:
    with pytest.raises(TypeError, match="anything: arguments are sent as JSON"):
        Arguments("anything", anything).encode([object()], {})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "not a call"),
        (b"", "not a call"),
        (b"hello", "not a call"),
        (b"\xff\xfe", "not a call"),
        (b"[1]", "not a call"),
        (b'{"arguments": []}', "arguments"),
        (b'{"args": {}}', "not a call"),
        (b"{}", "missing a required argument: 'name'"),
        (b'{"args": ["a", 1, 2]}', "too many positional arguments"),
        (b'{"kwargs": {"name": "a", "height": 1}}', "height"),
        (b'{"args": [5]}', "argument name: Expected `str`, got `int`"),
    ],
)
def test_a_message_that_is_no_call_of_the_function_is_rejected(value, reason) -> None:
    with pytest.raises(Reject, match=r"^resize") as caught:
        Arguments("resize", resize).decode(value)
    assert reason in str(caught.value)


def test_a_producer_may_leave_out_what_there_is_none_of() -> None:
    bound = Arguments("resize", resize).decode(json.dumps({"kwargs": {"name": "a"}}).encode())
    assert bound.arguments == {"name": "a"}
