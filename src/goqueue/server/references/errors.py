"""The reference page of errors: what each protocol answers, what it means, what to do.

`python -m goqueue.server.references.errors > docs/reference/errors.md`; a test holds it to that.
It is made from the tree of errors and the table of each protocol.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError
from goqueue.protocols.grpc.errors import GRPC_CODES
from goqueue.protocols.http.api.problems import PROBLEMS
from goqueue.protocols.kafka.errors import KAFKA_CODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INTRODUCTION: Final = """\
# Errors

What each error means and what to do. Made from the tree of errors and the table of each protocol.

An HTTP client gets a problem document ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)):

```json
{
  "title": "Not Found",
  "status": 404,
  "detail": "topic 'orders' does not exist: create it, or correct the name",
  "code": "topic_not_found",
  "retriable": false
}
```

- `code` is stable: programs may rely on it. `detail` is for people and may change.
- `retriable` says whether the same request can succeed later without a change. In the table
  below these errors are marked *yes*.
- A Kafka client gets Kafka's code for the same error; it retries retriable ones by itself. gRPC
  clients get a status, and the details carry the same flag.
- The Python client raises a class of its own for each kind:
  see [the Python client](python-client.md).
- What an operator does about errors that many clients get: [Runbooks](../how-to/runbooks.md) and
  [Troubleshooting](../how-to/troubleshooting.md).
"""

_RETRY: Final = "Send the same request again after a pause, or after `Retry-After` seconds."
_BY_STATUS: Final[Mapping[int, str]] = {
    400: "Correct the request; `field` names the part at fault.",
    401: "Log in, or send a key: see [Security](../how-to/security.md).",
    403: "Ask an administrator for the right: see [Rights](rights.md).",
    404: "Correct the name, or create what is missing.",
    405: "Use one of the methods of the `Allow` header.",
    409: "Read the current state, then decide again.",
    410: "It is over: begin anew.",
    413: "Send less at once, or raise the limit in the [configuration](configuration.md).",
    415: "Send `Content-Type: application/json`, or what the text names.",
    416: "Ask for a part that exists.",
    422: "Correct the value.",
    429: "Wait as long as `Retry-After` says; see [Quotas](../how-to/quotas.md).",
    408: "Send the request faster.",
    431: "Send fewer or shorter headers.",
    500: "Look at the server's log with the request id, and report it.",
    501: "Not supported here.",
    503: "Look at `goqueue health` and the server's log.",
    504: "Raise the timeout, or ask for less.",
    507: "Free disk space: see [Runbooks](../how-to/runbooks.md).",
}
_ADVICE: Final[Mapping[type[GoQueueError], str]] = {
    model.ChecksumMismatchError: (
        "The bytes were damaged on the way: send the batch again; look at the network or the "
        "client."
    ),
    model.BatchTooLargeError: "Send smaller batches, or raise `max.message.bytes` of the topic.",
    model.InvalidTimestampError: (
        "Correct the clock of the producer, or the timestamp settings of the topic."
    ),
    model.UnknownCompressionError: "Use gzip, snappy, lz4 or zstd.",
    model.DiskFullError: "Free disk space or shorten retention; nothing was stored.",
    model.DiskPermissionError: "Give the server's user the right to its data folder.",
    model.LogFailedError: "Wait: the log recovers by itself. If it stays, look at the disk.",
    model.OffsetOutOfRangeError: "Read from the start or the end of the log (`auto.offset.reset`).",
    model.DamagedRangeError: (
        "Continue at the offset that the text names; in a cluster the records are fetched from"
        " another replica."
    ),
    model.UnsupportedFormatError: (
        "Start a version of GoQueue that is at least as new as the one that wrote the folder."
    ),
    model.UnknownMemberError: "Join again.",
    model.IllegalGenerationError: "Join again; clients do so by themselves.",
    model.RebalanceInProgressError: "Join again; clients do so by themselves.",
    model.FencedInstanceError: "Two processes use one `group.instance.id`: give each its own.",
    model.NonEmptyGroupError: "Stop the members of the group first.",
    model.NotEnoughReplicasError: (
        "Start the missing nodes: `goqueue cluster health`. Nothing was stored."
    ),
    model.NotEnoughReplicasAfterAppendError: (
        "The message is stored and not yet safe: send it again; idempotent producers store it once."
    ),
    model.NotLeaderError: "Ask for the metadata again; clients do so by themselves.",
    model.DelayTooLongError: (
        "Shorten the delay, or raise the limit in the [configuration](configuration.md)."
    ),
}
_PROTOCOLS: Final = ("http", "kafka", "grpc")
"""Errors that are declared in a protocol's package are not known to the others."""
_T = TypeVar("_T")


def reference() -> str:
    """The page."""
    lines = [
        _INTRODUCTION,
        "| HTTP | code | Kafka | gRPC | retriable | meaning | what to do |",
        "| ---: | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(kind) for kind in _kinds()]
    return "\n".join(lines) + "\n"


def advice_for(kind: type[GoQueueError]) -> str:
    """What a client does about this kind of error."""
    if kind in _ADVICE:
        return _ADVICE[kind]
    return _RETRY if kind.retriable else _BY_STATUS[_nearest(PROBLEMS, kind).status]


def _row(kind: type[GoQueueError]) -> str:
    own = next((each for each in _PROTOCOLS if f".{each}." in kind.__module__), "")
    problem = _nearest(PROBLEMS, kind)
    http = (str(problem.status), f"`{problem.code}`") if own in {"", "http"} else ("", "")
    kafka = _nearest(KAFKA_CODES, kind).name.upper() if own in {"", "kafka"} else ""
    status = _nearest(GRPC_CODES, kind).status.name if own in {"", "grpc"} else ""
    text = " ".join((inspect.getdoc(kind) or "").split()).replace("|", "\\|")
    retriable = "yes" if kind.retriable else ""
    return (
        f"| {http[0]} | {http[1]} | {kafka} | {status} | {retriable} | {text} | "
        f"{advice_for(kind)} |"
    )


def _kinds() -> list[type[GoQueueError]]:
    """Every kind that a table names, by HTTP's code."""
    found = {*PROBLEMS, *KAFKA_CODES, *GRPC_CODES} & set(_below(GoQueueError))
    return sorted(
        found,
        key=lambda kind: (
            _nearest(PROBLEMS, kind).status,
            _nearest(PROBLEMS, kind).code,
            kind.__name__,
        ),
    )


def _below(kind: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _nearest(table: Mapping[type[GoQueueError], _T], kind: type[GoQueueError]) -> _T:
    return next(table[each] for each in kind.__mro__ if each in table)


if __name__ == "__main__":
    sys.stdout.write(reference())
