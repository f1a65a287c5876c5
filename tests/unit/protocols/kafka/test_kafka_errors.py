from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

import pytest

import goqueue
from goqueue.model.errors import GoQueueError, InvariantError, OffsetOutOfRangeError
from goqueue.protocols.kafka.errors import KAFKA_CODES, code_for
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator


def every_error() -> Iterator[type[GoQueueError]]:
    for package in pkgutil.walk_packages(goqueue.__path__, "goqueue."):
        if package.name.endswith("errors"):
            importlib.import_module(package.name)
    waiting: list[type[GoQueueError]] = [GoQueueError]
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        # What lies above the protocols fails before or beside any client's request.
        if not kind.__module__.startswith(
            (
                "goqueue.server",
                "goqueue.cli",
                "goqueue.client",
                "goqueue.spark",
                "goqueue.worker",
                "goqueue.protocols.http",
                "goqueue.protocols.grpc",
            )
        ):
            yield kind


@pytest.mark.parametrize("kind", list(every_error()), ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_that_says_more_than_something_went_wrong(kind):
    code = code_for(kind)
    assert code is not ErrorCode.none
    vague = kind is GoQueueError or issubclass(kind, InvariantError)
    assert (code is ErrorCode.unknown_server_error) == vague


@pytest.mark.parametrize("kind", list(every_error()), ids=lambda kind: kind.__name__)
def test_a_client_is_told_to_retry_what_may_be_retried(kind):
    if kind.retriable:
        assert code_for(kind).retriable


def test_a_class_without_a_line_takes_its_ancestor_s():
    class NarrowError(OffsetOutOfRangeError):
        pass

    assert NarrowError not in KAFKA_CODES
    assert code_for(NarrowError) is ErrorCode.offset_out_of_range
    assert code_for(NarrowError(5, 0, 1)) is ErrorCode.offset_out_of_range
