"""Messages to the server in batches, each with its own fate."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from goqueue.cli.errors import RefusedError
from goqueue.protocols.http.messages.message_shapes import PublishAnswer, PublishResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.cli.api import Api
    from goqueue.cli.messages.input_lines import Line

KEPT_ERRORS: Final = 100
"""Of more than this only the count is kept."""
_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""A request with more lines than this is sent before it has all the messages it might."""

_AT: Final = re.compile(r"messages\[(\d+)\]")
"""How a refusal names the message at fault, in `field`."""


@dataclass(slots=True)
class Outcome:
    """What became of all messages so far."""

    sent: int = 0
    failed: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)


class Sender:
    """Publishes lines to one topic."""

    def __init__(self, api: Api, topic: str, *, batch: int, acks: str, keep_results: bool) -> None:
        self._api = api
        self._topic = topic
        self._batch = batch
        self._acks = acks
        self._keep_results = keep_results
        self.outcome = Outcome()

    def send_all(
        self, lines: Iterable[Line | None], common: dict[str, Any], advance: Callable[[int], None]
    ) -> None:
        """Publish every line that is a message; `advance` hears how many bytes are done.

        Whatever waits is sent when there is a batch of it, or nothing more for the moment (None).

        Raises:
            CliError: the server cannot be reached, or refuses the whole of it.
        """
        waiting: list[Line] = []
        size = 0
        for line in lines:
            if line is not None and line.message is None:
                self._fail(line, line.error or "")
                advance(line.size_bytes)
                continue
            if line is not None:
                waiting.append(line._replace(message={**common, **(line.message or {})}))
                size += line.size_bytes
            if line is None or len(waiting) >= self._batch or size >= _REQUEST_BYTES:
                self._send(waiting)
                advance(size)
                waiting, size = [], 0
        self._send(waiting)
        advance(size)

    def _send(self, lines: list[Line]) -> None:
        """Publish a batch; a message for which all of it is refused is left out of the next try."""
        while lines:
            body = {"messages": [line.message for line in lines], "acks": self._acks}
            try:
                path = "/topics/{}/messages"
                answer = self._api.post(PublishAnswer, path, self._topic, body=body)
            except RefusedError as error:
                at = _AT.match(error.field or "")
                if at is None or int(at[1]) >= len(lines):
                    raise
                self._fail(lines.pop(int(at[1])), error.detail)
                continue
            for line, result in zip(lines, answer.results, strict=True):
                self._note(line, result)
            return

    def _note(self, line: Line, result: PublishResult) -> None:
        if result.error is not None:
            self._fail(line, result.error)
            return
        self.outcome.sent += 1
        if self._keep_results:
            place: dict[str, Any] = {"offset": result.offset, "timestamp": result.timestamp}
            if result.delayed:
                place = {"id": result.id, "deliverAt": result.deliver_at}
            self.outcome.results.append({"partition": result.partition, **place})

    def _fail(self, line: Line, error: str) -> None:
        self.outcome.failed += 1
        if len(self.outcome.errors) < KEPT_ERRORS:
            self.outcome.errors.append({"line": line.number, "error": error})
