"""Fetched messages, decoded as they are asked for; in C `_native_messages.c` and `_native_row.c`.

Memory: a message is a row of the fetch it came with, and keeps the bytes of that fetch. Whoever
keeps a few messages for long copies them (`copy.copy`, pickling, `_replace`): a copy has its own
fields and keeps nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from goqueue.records.reference import decode_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from goqueue.records.record import Headers
    from goqueue.records.section import Section

FIELDS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")

_METHODS: Final = (
    "__eq__",
    "__lt__",
    "__hash__",
    "__repr__",
    "__reduce__",
    "__match_args__",
    "_fields",
    "_asdict",
    "_replace",
)

AnyRow = TypeVar("AnyRow", bound="Row")


class Row:
    """One message: a row of `Messages`, or fields of its own."""

    __slots__ = ("_at", "_origin")

    _origin: Messages | tuple[Any, ...]
    _at: int

    def __new__(  # noqa: PLR0917 - the fields in their order
        cls,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> Self:
        """A message with fields of its own."""
        self = object.__new__(cls)
        self._origin, self._at = (topic, partition, offset, timestamp_ms, key, value, headers), -1
        return self

    def _field(self, number: int) -> Any:
        if isinstance(self._origin, tuple):
            return self._origin[number]
        return self._origin.field(self._at, number)

    @property
    def topic(self) -> str:
        """Where it was published."""
        return cast("str", self._field(0))

    @property
    def partition(self) -> int:
        """The partition of the topic."""
        return cast("int", self._field(1))

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return cast("int", self._field(2))

    @property
    def timestamp_ms(self) -> int:
        """When it was published, or appended where the topic says so."""
        return cast("int", self._field(3))

    @property
    def key(self) -> bytes | None:
        """Its key, if it has one."""
        return cast("bytes | None", self._field(4))

    @property
    def value(self) -> bytes | None:
        """What it says; None is a tombstone."""
        return cast("bytes | None", self._field(5))

    @property
    def headers(self) -> Headers:
        """Its headers in their order."""
        return cast("Headers", self._field(6))

    def __len__(self) -> int:
        return len(FIELDS)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._field(number) for number in range(len(FIELDS))])

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return tuple(self)[index]


class Message(Row):
    """A message that was read. As a tuple it is its fields in their order."""

    __slots__ = ()
    __module__ = "goqueue.records"  # where pickles find the one in use, compiled or not

    _fields: Final = FIELDS
    __match_args__ = FIELDS

    def __eq__(self, other: object) -> bool:
        fields = _fields_of(other)
        return NotImplemented if fields is None else tuple(self) == fields

    def __lt__(self, other: object) -> bool:
        fields = _fields_of(other)
        return NotImplemented if fields is None else tuple(self) < fields

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={field!r}" for name, field in zip(FIELDS, self, strict=True))
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self)

    def _asdict(self) -> dict[str, Any]:
        """Its fields by their names."""
        return dict(zip(FIELDS, self, strict=True))

    def _replace(self, **fields: Any) -> Self:
        """A copy with other fields.

        Raises:
            ValueError: there is no field of a name.
        """
        if unknown := fields.keys() - FIELDS:
            raise ValueError(f"a message has no fields {sorted(unknown)}; it has {FIELDS}")
        return type(self)(**{**self._asdict(), **fields})


def _fields_of(other: object) -> tuple[Any, ...] | None:
    if isinstance(other, tuple):
        return other
    return tuple(cast("Message", other)) if getattr(other, "_fields", None) is FIELDS else None


def message_type(rows: type[Row]) -> type[Message]:
    """`Message` on another type of rows, which gets the methods: a subclass would be slower."""
    if rows is Row:
        return Message
    for name in _METHODS:
        setattr(rows, name, Message.__dict__[name])
    return cast("type[Message]", rows)


class Messages:
    """The messages of a fetch of one partition, from one offset up to, not including, another.

    They are checked when it is made, and decoded as they are asked for.
    """

    __slots__ = (
        "_message_type",
        "_records",
        "next_offset",
        "partition",
        "remainder_bytes",
        "size_bytes",
        "topic",
    )

    def __init__(  # noqa: PLR0917 - only a codec calls it
        self,
        message_type: type[Row],
        topic: str,
        partition: int,
        sections: Sequence[Section],
        from_offset: int,
        until_offset: int,
        next_offset: int | None,
        remainder_bytes: int,
        /,
    ) -> None:
        self._message_type = message_type
        self._records = [
            record
            for section in sections
            for record in decode_records(section)
            if from_offset <= record.offset < until_offset
        ]
        self.topic = topic
        self.partition = partition
        self.size_bytes = sum(len(section.data) for section in sections)
        """Of the decompressed records, which any of the messages keeps."""
        self.next_offset = next_offset
        """Where to read on; None without a whole batch."""
        self.remainder_bytes = remainder_bytes
        """How much of the buffer is the start of a batch that was cut off."""

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._row(self._message_type, at) for at in range(len(self))[index]]
        return self._row(self._message_type, self._place(index))

    def __iter__(self) -> Iterator[Message]:
        return (cast("Message", self._row(self._message_type, at)) for at in range(len(self)))

    def rows(
        self, row_type: type[AnyRow], start: int | None = 0, stop: int | None = None, /
    ) -> list[AnyRow]:
        """Messages as rows of a type that is derived from `Message`; its `__init__` is not called.

        Raises:
            TypeError: it is derived from something else.
        """
        if not issubclass(row_type, Row):
            raise TypeError("rows takes a class that is derived from Message")
        return [self._row(row_type, at) for at in range(len(self))[start:stop]]

    def values(self, start: int | None = 0, stop: int | None = None, /) -> list[bytes | None]:
        """The value of each message."""
        return [record.value for record in self._records[start:stop]]

    def keys(self, start: int | None = 0, stop: int | None = None, /) -> list[bytes | None]:
        """The key of each message."""
        return [record.key for record in self._records[start:stop]]

    def offsets(self, start: int | None = 0, stop: int | None = None, /) -> list[int]:
        """The offset of each message."""
        return [record.offset for record in self._records[start:stop]]

    def timestamps_ms(self, start: int | None = 0, stop: int | None = None, /) -> list[int]:
        """The timestamp of each message."""
        return [record.timestamp_ms for record in self._records[start:stop]]

    def value(self, row: int, /) -> bytes | None:
        """The value of one message."""
        return self._records[self._place(row)].value

    def key(self, row: int, /) -> bytes | None:
        """The key of one message."""
        return self._records[self._place(row)].key

    def offset(self, row: int, /) -> int:
        """The offset of one message."""
        return self._records[self._place(row)].offset

    def timestamp_ms(self, row: int, /) -> int:
        """The timestamp of one message."""
        return self._records[self._place(row)].timestamp_ms

    def headers(self, row: int, /) -> Headers:
        """The headers of one message."""
        return self._records[self._place(row)].headers

    def field(self, at: int, number: int) -> Any:
        """The field of that number of one message."""
        if number < 2:
            return (self.topic, self.partition)[number]
        return self._records[at][number - 2]

    def _place(self, row: int) -> int:
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no message {row} among {len(self)}")
        return row % len(self)

    def _row(self, row_type: type[AnyRow], at: int) -> AnyRow:
        row = object.__new__(row_type)
        row._origin, row._at = self, at
        return row
