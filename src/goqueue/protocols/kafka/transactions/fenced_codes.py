"""What older clients are told of a fenced producer.

`PRODUCER_FENCED` came with later versions of each API (KIP-588). Before, a producer that was
fenced was told that its epoch is wrong.
"""

from __future__ import annotations

from goqueue.wire.kafka.error_codes import ErrorCode


def known_to(version: int, code: ErrorCode, *, fenced_from: int) -> ErrorCode:
    """A code in the words of a version; `fenced_from` is the first that knows fencing."""
    if code is ErrorCode.producer_fenced and version < fenced_from:
        return ErrorCode.invalid_producer_epoch
    return code
