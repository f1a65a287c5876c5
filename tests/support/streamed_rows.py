"""What a streaming query of Spark's has handed to its sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Row = tuple[int, int, bytes]


class Rows:
    """A sink that keeps what it is given, a list a batch; a replayed batch replaces its first."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, frame: Any, number: int) -> None:
        rows = frame.select("partition", "offset", "value").collect()
        self.batches[number] = [(row[0], row[1], bytes(row[2])) for row in rows]

    @property
    def all(self) -> list[Row]:
        return sorted(row for batch in list(self.batches.values()) for row in batch)

    def has_more_than(self, count: int) -> bool:
        return len(self.all) > count


def wait_for(condition: Callable[[], object], query: Any, what: str) -> None:
    """Wait, for as long as the query has not failed."""
    for _ in range(2500):
        if condition():
            return
        assert query.exception() is None, query.exception()
        query.awaitTermination(0.1)
    raise AssertionError(what)
