"""Dead letters as the messages that a redrive publishes, in portions that go at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.dead_letters import REDRIVEN_HEADER
from goqueue.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.queues.dead_letters.letters import Letter

BATCH_BYTES: Final = 512 * 1024
"""Of messages that go at once; a larger one goes by itself."""
_PAUSES_PER_S: Final = 10
"""How often a redrive with a rate pauses, so that it goes smoothly."""


def portions(letters: Sequence[Letter], rate: float | None) -> Iterator[list[Letter]]:
    """Letters in portions that are not too large to go at once, and not too many for the rate."""
    at_most = len(letters) if rate is None else max(int(rate / _PAUSES_PER_S), 1)
    portion: list[Letter] = []
    size_bytes = 0
    for letter in letters:
        record = letter.record
        letter_bytes = len(record.value or b"") + len(record.key or b"")
        if portion and (len(portion) >= at_most or size_bytes + letter_bytes > BATCH_BYTES):
            yield portion
            portion, size_bytes = [], 0
        portion.append(letter)
        size_bytes += letter_bytes
    if portion:
        yield portion


def as_published(at: int, letter: Letter, now_ms: int) -> Record:
    """The message as it is published again: new, and as it was before it was dead-lettered."""
    headers = tuple(each for each in letter.headers if each[0] != REDRIVEN_HEADER)
    again = (REDRIVEN_HEADER, b"%d" % (letter.redriven + 1))
    return Record(at, now_ms, letter.record.key, letter.record.value, (*headers, again))
