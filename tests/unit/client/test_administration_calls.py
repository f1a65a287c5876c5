"""The families of administration: what they ask, what they raise, and what they know of answers."""

from __future__ import annotations

import asyncio
import inspect
import json

import msgspec
import pytest

from goqueue.client.administration import (
    cluster,
    dead_letters,
    delayed,
    groups,
    queues,
    receipts,
    schemas,
    topics,
    traces,
    transactions,
)
from goqueue.client.administration.calls import LANE, Calls
from goqueue.client.administration.client import AsyncAdministration
from goqueue.client.errors import BrokerError, ConnectionLostError, UnexpectedAnswerError
from goqueue.client.link.codes import RetriableBrokerError
from goqueue.client.sync import families
from goqueue.client.sync.administration import Administration
from goqueue.client.sync.blocking import Blocking
from goqueue.model.errors import NotLeaderError, OffsetOutOfRangeError
from goqueue.protocols.http.groups import group_shapes, queue_settings_shapes
from goqueue.protocols.http.operations import admin_shapes, operation_shapes, trace_shapes
from goqueue.protocols.http.queues import (
    dead_letter_shapes,
    delayed_shapes,
    queue_stats_shapes,
)
from goqueue.protocols.http.schemas import schema_shapes
from goqueue.protocols.http.topics import topic_shapes
from goqueue.protocols.http.transactions import transaction_shapes
from goqueue.wire.kafka.api_keys import ApiKey

# --- Blocking classes -----------------------------------------------------------------------------

PAIRS = [(Administration, AsyncAdministration)] + [
    (kind, vars(kind)["__orig_bases__"][0].__args__[0])
    for kind in vars(families).values()
    if isinstance(kind, type) and issubclass(kind, Blocking) and kind is not Blocking
]


def public(kind):
    return {name: each for name, each in vars(kind).items() if not name.startswith("_")}


@pytest.mark.parametrize(("kind", "source"), PAIRS)
def test_everything_is_there_without_asyncio(kind, source):
    assert public(kind).keys() == public(source).keys()
    for name, method in public(source).items():
        if inspect.isfunction(method):
            assert inspect.signature(public(kind)[name]) == inspect.signature(method)
        assert method.__doc__


def test_every_family_has_its_blocking_class():
    assert {source for _, source in PAIRS[1:]} == {
        each
        for module in (cluster, dead_letters, delayed, groups, queues, schemas, topics, traces)
        for each in vars(module).values()
        if isinstance(each, type) and each.__name__.startswith("Async")
    } | {transactions.AsyncTransactions, receipts.AsyncReceipts}


# --- What the server answers ----------------------------------------------------------------------

LEFT_OUT = {
    (delayed.DelayedMessage, "offset"),  # the same as the id
    (delayed.DelayStats, "wheel"),
    (schemas.Schema, "maxId"),
}
SHAPES = {
    cluster.Health: operation_shapes.Health,
    cluster.Totals: operation_shapes.Summary,
    cluster.Readiness: operation_shapes.Readiness,
    cluster.TopicStats: operation_shapes.TopicStats,
    cluster.ClusterStats: operation_shapes.Stats,
    cluster.Version: operation_shapes.Version,
    cluster.Maintenance: operation_shapes.MaintenanceStatus,
    dead_letters.DeadLetter: dead_letter_shapes.LetterLine,
    dead_letters.WholeDeadLetter: dead_letter_shapes.LetterDetail,
    dead_letters.DeadLetterQueue: dead_letter_shapes.BoxLine,
    dead_letters.RefusedLetter: dead_letter_shapes.RefusedLine,
    dead_letters.Redrive: dead_letter_shapes.RedriveAnswer,
    delayed.DelayedMessage: delayed_shapes.DelayedOut,
    delayed.DelayStats: delayed_shapes.DelayStatsAnswer,
    delayed.Timeline: delayed_shapes.TimelineAnswer,
    groups.Rebalances: group_shapes.RebalanceStats,
    queues.QueueSettings: queue_settings_shapes.SettingsShape,
    queues.QueuePartition: group_shapes.PartitionCounts,
    queues.Lane: queue_stats_shapes.GroupLane,
    schemas.Reference: schema_shapes.ReferenceShape,
    schemas.Schema: schema_shapes.SchemaOut,
    schemas.SchemaVersion: schema_shapes.VersionOut,
    schemas.RegisteredSchema: schema_shapes.Registered,
    schemas.Compatibility: schema_shapes.Verdict,
    schemas.RegistryStats: schema_shapes.RegistryStats,
    topics.TopicSetting: topic_shapes.SettingInfo,
    topics.Compaction: admin_shapes.CompactedPartition,
    traces.Span: trace_shapes.SpanOut,
    traces.TraceSummary: trace_shapes.TraceSummary,
    traces.Trace: trace_shapes.TraceOut,
    traces.Exporter: trace_shapes.ExporterOut,
    traces.TraceStats: trace_shapes.TraceStatsAnswer,
    transactions.TransactionStats: transaction_shapes.TransactionStats,
}


def named(kind):
    return {each.encode_name: each.required for each in msgspec.structs.fields(kind)}


@pytest.mark.parametrize(("ours", "theirs"), SHAPES.items())
def test_the_client_knows_every_field_that_the_server_answers(ours, theirs):
    here, there = named(ours), named(theirs)
    encodings = {name for name in there if name.endswith("encoding")}
    left_out = {name for kind, name in LEFT_OUT if kind is ours}
    left_out |= there.keys() & {"unanswered"}  # lists and totals hide it: a warning is logged
    assert there.keys() - here.keys() == encodings | left_out
    assert here.keys() <= there.keys()


# --- Calls ----------------------------------------------------------------------------------------


class Answer:
    def __init__(self, body=b"null", status=200, error_name="", **details):
        self.error_code = 0
        self.status = status
        self.error_name = error_name
        self.error_details = [Detail(name, value) for name, value in details.items()]
        self.body = body


class Detail:
    def __init__(self, name, value):
        self.name = name
        self.value = value


class Link:
    """A link that answers what it is told, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.address = "here"
        self.versions = {ApiKey.CALL_HTTP: (0, 0)}

    async def retry(self, what, action):
        while True:
            try:
                return await action()
            except (ConnectionLostError, RetriableBrokerError, NotLeaderError):
                self.asked.append("again")

    async def to_any(self, lane):
        assert lane == LANE
        return self

    async def ask(self, api, version, *, lane=LANE, wait_s=0.0, **fields):
        assert (api, version, lane) == (ApiKey.CALL_HTTP, 0, LANE)
        self.asked.append((fields["method"], fields["target"], fields["body"]))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def call(link, verb, *args, **fields):
    return asyncio.run(getattr(Calls(link), verb)(*args, **fields))


def problem(detail="why", **fields):
    return json.dumps({"detail": detail, **fields}).encode()


def test_names_and_filters_are_quoted_and_what_is_none_is_left_out():
    link = Link(Answer(b"7"))
    found = call(link, "get", int, "/a/{}/b/{}", "x/y ?", "ä", one=None, two=True, three="&=")
    assert found == 7
    assert link.asked == [("GET", "/v1/a/x%2Fy%20%3F/b/%C3%A4?two=true&three=%26%3D", b"")]


def test_a_body_is_json():
    link = Link(Answer())
    call(link, "post", type(None), "/a", body={"n": [1, None]})
    ((method, target, body),) = link.asked
    assert (method, target, json.loads(body)) == ("POST", "/v1/a", {"n": [1, None]})


@pytest.mark.parametrize(
    ("verb", "fields", "is_asked_again"),
    [
        ("get", {}, True),
        ("put", {"body": 1}, True),
        ("post", {"again": True}, True),
        ("post", {}, False),
        ("delete", {}, False),
    ],
)
def test_only_what_may_be_done_twice_is_sent_again(verb, fields, is_asked_again):
    link = Link(ConnectionLostError("lost"), Answer())
    if is_asked_again:
        call(link, verb, type(None), "/a", **fields)
    else:
        with pytest.raises(ConnectionLostError):
            call(link, verb, type(None), "/a", **fields)
    assert ("again" in link.asked) is is_asked_again


def test_a_refusal_is_the_class_that_it_had_in_the_broker():
    link = Link(Answer(problem(), 416, "OffsetOutOfRangeError", offset="7", text="x"))
    with pytest.raises(OffsetOutOfRangeError, match="why") as caught:
        call(link, "get", int, "/a")
    assert vars(caught.value) == {"offset": 7, "text": "x"}


def test_a_refusal_that_a_moment_may_change_is_asked_again():
    link = Link(Answer(problem(retriable=True), 503, "StoppingError"), Answer(b"1"))
    assert call(link, "get", int, "/a") == 1
    assert "again" in link.asked


@pytest.mark.parametrize("name", ["FieldError", "os", "TYPE_CHECKING", "annotations"])
def test_an_error_without_a_class_here_is_a_broker_error(name):
    with pytest.raises(BrokerError, match="why") as caught:
        call(Link(Answer(problem(), 400, name)), "get", int, "/a")
    assert type(caught.value) is BrokerError


@pytest.mark.parametrize("body", [b"", b"\xff", b"<html>", b'"7"', b"{}"])
def test_an_answer_that_is_none_is_said(body):
    with pytest.raises(UnexpectedAnswerError, match="same version"):
        call(Link(Answer(body)), "delete", int, "/a")


def test_a_refusal_without_words_says_its_status():
    with pytest.raises(BrokerError, match="502"):
        call(Link(Answer(b"", 502)), "delete", int, "/a")


@pytest.mark.parametrize("value", [b"bytes", {1}, object()])
def test_what_json_cannot_say_is_a_type_error(value):
    with pytest.raises(TypeError, match=f"POST /v1/a: .* is {type(value).__name__}, expected text"):
        call(Link(), "post", int, "/a", body={"n": [value]})
