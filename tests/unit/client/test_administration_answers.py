"""Whatever a server answers, administration returns it or raises a `GoQueueError`."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from goqueue.client.administration.client import AsyncAdministration
from goqueue.client.administration.schemas import Reference
from goqueue.client.errors import UnexpectedAnswerError
from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.wire.kafka.api_keys import ApiKey

ARGUMENTS = {
    "group": "g",
    "key": "k",
    "level": "FULL",
    "mode": "READONLY",
    "name": "n",
    "offsets": {TopicPartition("t", 0): 1},
    "offset": 1,
    "partition": 0,
    "partitions": 3,
    "delayed_id": 1,
    "receipt_handle": "r",
    "receipt_handles": ["r"],
    "reason": "why",
    "redrive_id": 1,
    "schema": "{}",
    "schema_id": 1,
    "seconds": 1,
    "subject": "s",
    "to": "latest",
    "topic": "t",
    "trace_id": "0" * 32,
    "transactional_id": "tx",
    "version": 1,
    "references": [Reference("a", "b", 1)],
}
NAMES = [
    "changes", "checks", "count", "cursor", "details", "encoding", "error", "error_name",
    "groups", "headers", "id", "is_compatible", "key", "lag", "letters", "log_ends", "messages",
    "name", "offset", "offsets", "partition", "partitions", "purged", "removed", "results",
    "settings", "spans", "state", "status", "timestamp", "topic", "topics", "total", "traces",
    "transactions", "value", "version", "0", "t",
]  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-2, 2**40) | st.text(max_size=5) | st.floats()
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=8)
    ),
    max_leaves=30,
)


class Client(AsyncAdministration):
    """Its server answers everything with the same."""

    link: Any

    def __init__(self, body):
        self.link = Link(body)


class Link:
    def __init__(self, body):
        self.body = body
        self.address = "here"
        self.versions = {ApiKey.CALL_HTTP: (0, 0)}

    async def retry(self, what, action):
        return await action()

    async def to_any(self, lane):
        return self

    async def ask(self, api, version, **_fields):
        if api == ApiKey.DESCRIBE_CLUSTER:
            return SimpleNamespace(error_code=0, error_message=None, brokers=[], controller_id=0)
        return SimpleNamespace(
            error_code=0, status=200, error_name="", error_details=[], body=self.body
        )


def families():
    client = Client(b"")
    for name, each in vars(AsyncAdministration).items():
        if not name.startswith("_") and not inspect.isfunction(each):
            family = getattr(client, name)
            for method in vars(type(family)):
                if not method.startswith("_") and (name, method) != ("dead_letters", "wait"):
                    yield name, method


def arguments(method):
    """Values for everything that has to be given."""
    parameters = inspect.signature(method).parameters.values()
    return {
        each.name: ARGUMENTS[each.name]
        for each in parameters
        if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
    }


def ask(family, method, body):
    client = Client(body)
    bound = getattr(getattr(client, family), method)
    given_ = arguments(bound)
    if (family, method) == ("topics", "grow"):
        given_["partitions"] = 3
    with suppress(GoQueueError, ValueError if method == "describe" else GoQueueError):
        asyncio.run(bound(**given_))


@pytest.mark.parametrize(("family", "method"), list(families()))
@settings(max_examples=25, deadline=None)
@given(answer=JSON)
def test_a_strange_answer_is_a_clear_error(family, method, answer):
    ask(family, method, msgspec.json.encode(answer))


@pytest.mark.parametrize(("family", "method"), list(families()))
@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[[[[", b'{"a":' * 200, b"NaN"])
def test_no_answer_at_all_is_a_clear_error(family, method, body):
    ask(family, method, body)


@pytest.mark.parametrize(
    "answer",
    [
        {"offsets": {"t": {"0": 1}}, "log_ends": {}, "lag": {"t": {"0": 1}}},
        {"offsets": {"t": {"0": 1}}, "log_ends": {"t": {}}, "lag": {"t": {"0": 1}}},
        {"offsets": {}, "log_ends": {}, "lag": {}},
    ],
)
def test_offsets_that_are_left_out_are_a_clear_error(answer):
    client = Client(msgspec.json.encode(answer))
    with pytest.raises(UnexpectedAnswerError):
        asyncio.run(client.offsets.fetch("g", [TopicPartition("t", 0)]))


@pytest.mark.parametrize("headers", [7, [7], [{}], [{"name": 7}], [{"name": "a", "value": 7}]])
def test_headers_that_are_none_are_a_clear_error(headers):
    client = Client(msgspec.json.encode({"messages": [{"headers": headers}]}))
    with pytest.raises(UnexpectedAnswerError):
        asyncio.run(client.delayed.list("t"))
