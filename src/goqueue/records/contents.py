"""Keys and values as users give them: one by one, in lists, or in columns as Arrow has them.

`_native_input.c` does the same in C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from goqueue.records.columns import BinaryView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goqueue.records.record import Headers

Content: TypeAlias = bytes | str | bytearray | memoryview | None
"""Text is UTF-8 on the wire."""

Contents: TypeAlias = "list[bytes] | list[str] | Sequence[Content] | BinaryView"
HeaderInput: TypeAlias = "Mapping[str, Content] | Sequence[tuple[str, Content]] | None"


def to_bytes(what: str, content: Content) -> bytes | None:
    """The bytes of a key or value.

    Raises:
        TypeError: it is something else.
    """
    if type(content) is bytes or content is None:
        return content
    if isinstance(content, str):
        return str.encode(content)
    if isinstance(content, bytes | bytearray | memoryview):
        return memoryview(content).tobytes()
    raise TypeError(f"a {what} must be bytes, str or None, not {type(content).__name__}")


def to_headers(headers: HeaderInput) -> Headers:
    """Headers in their order, whichever way they were given.

    Raises:
        TypeError: they are neither a mapping nor pairs of a name and a content.
    """
    if headers is None or headers == ():
        return ()
    if hasattr(headers, "items"):
        headers = tuple(headers.items())
    elif not hasattr(headers, "__getitem__") or isinstance(headers, str | bytes):
        raise TypeError(
            f"headers must be a mapping or a sequence of pairs, not {type(headers).__name__}"
        )
    return tuple(_to_header(pair) for pair in headers)


def _to_header(pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"a header must be a pair of name and value, not {pair!r:.100}")
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"the name of a header must be a str, not {type(name).__name__}")
    return name, to_bytes("header value", value)


def entries(what: str, contents: Contents) -> tuple[int, Callable[[int], bytes | None]]:
    """How many there are, and what gives the one of a row.

    Raises:
        TypeError: they are neither a list, a tuple nor a view.
        ValueError: the buffers of a view are too small.
    """
    if isinstance(contents, BinaryView):
        return contents.count, _column_reader(contents)
    if not isinstance(contents, list | tuple):
        raise TypeError(
            f"{what}s must be a list, a tuple or a BinaryView, not {type(contents).__name__}"
        )
    given = contents

    def read(row: int) -> bytes | None:
        return to_bytes(what, given[row])

    return len(contents), read


def _column_reader(view: BinaryView) -> Callable[[int], bytes | None]:
    ends, data = memoryview(view.ends).cast("B"), memoryview(view.data).cast("B")
    validity = None if view.validity is None else memoryview(view.validity).cast("B")
    end, width = view.first + view.count, 8 if view.is_large else 4
    if (
        min(view.first, view.count) < 0
        or (view.count and (end + 1) * width > len(ends))
        or (view.count and validity is not None and (end + 7) // 8 > len(validity))
    ):
        raise ValueError("the buffers of a column are smaller than its rows need")
    numbers = ends[: len(ends) // width * width].cast("q" if view.is_large else "i")

    def read(row: int) -> bytes | None:
        index = view.first + row
        if validity is not None and not validity[index >> 3] >> (index & 7) & 1:
            return None
        start, stop = numbers[index], numbers[index + 1]
        if not 0 <= start <= stop <= len(data):
            raise ValueError(f"row {row} of a column ends outside of its data")
        return data[start:stop].tobytes()

    return read
