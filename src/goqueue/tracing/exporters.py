"""Where entries go: files, standard output. A collector is beside, in `otlp`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

import msgspec

from goqueue.tracing.events import Entry, span_of

if TYPE_CHECKING:
    from goqueue.runtime.clock import Clock
    from goqueue.tracing.files import TraceFiles


class FileExporter:
    """Keeps entries for the next start, and for queries of old ones."""

    name = "files"

    def __init__(self, files: TraceFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    def export(self, entries: list[Entry]) -> None:
        """Append them."""
        self._files.write(entries, self._clock.now_ms())

    def close(self) -> None:
        """Close the file."""
        self._files.close()


class StdoutExporter:
    """Prints spans, a line of JSON each."""

    name = "stdout"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def export(self, entries: list[Entry]) -> None:
        """Print one line for each message."""
        stream = sys.stdout if self._stream is None else self._stream
        for entry in entries:
            for _, offset in entry.traces():
                stream.write(msgspec.json.encode(span_of(entry, offset)).decode() + "\n")
        stream.flush()

    def close(self) -> None:
        """Nothing to do: the stream is not ours."""
