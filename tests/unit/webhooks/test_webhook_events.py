"""Events, which endpoint takes which, and the signature of a request."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

import msgspec
import pytest

from goqueue.model.errors import WebhookError, WebhookTargetError
from goqueue.queues.delivery.settings import Mode
from goqueue.webhooks.endpoints import Endpoint, check_endpoint, new_id, new_secret
from goqueue.webhooks.events import CHOOSABLE, Event, EventMaker, EventType, decode, encode
from goqueue.webhooks.signing import headers_of, signature
from support.clocks import ManualClock

SECRET = "0123456789abcdef"
MAKER = EventMaker(ManualClock(), "goqueue/test/1")


def endpoint(**changes: Any) -> Endpoint:
    return msgspec.structs.replace(Endpoint("https://example.com/x", SECRET, 0, 0), **changes)


def test_an_event_has_the_fields_that_are_promised_and_an_id_of_its_own() -> None:
    event = MAKER.make(EventType.TOPIC_CREATED, {"topic": "orders"})
    body = msgspec.json.decode(encode(event))
    assert list(body) == ["id", "type", "timestamp", "source", "data"]
    assert re.fullmatch(r"evt_[0-9]+_[0-9]+", event.id)
    assert decode(encode(event)) == event
    made = {MAKER.make(EventType.TOPIC_CREATED, {}).id for _ in range(1000)}
    assert len(made) == 1000


def test_a_long_text_is_cut() -> None:
    event = MAKER.make(EventType.MESSAGE_DEAD_LETTERED, {"error": "x" * 10_000})
    assert len(event.data["error"]) == 500


@pytest.mark.parametrize("body", [None, b"", b"{}", b"[1]", b'{"id": 1}', b"\xff\xfe"])
def test_what_is_no_event_is_none(body: bytes | None) -> None:
    assert decode(body) is None


def test_filters_choose_events_and_topics() -> None:
    created = MAKER.make(EventType.TOPIC_CREATED, {"topic": "orders"})
    deleted = MAKER.make(EventType.TOPIC_DELETED, {"topic": "orders"})
    ready = MAKER.make(EventType.BROKER_READY, {"node": 1})
    assert all(endpoint().takes(each) for each in (created, deleted, ready))
    some = endpoint(events=("topic.created",))
    assert [some.takes(each) for each in (created, deleted, ready)] == [True, False, False]
    other = endpoint(topics=("bills",))
    assert [other.takes(each) for each in (created, deleted, ready)] == [False, False, True]


def test_the_group_of_an_endpoint_keeps_the_order_and_outlasts_ten_minutes() -> None:
    settings = endpoint().group_settings()
    assert settings.mode is Mode.EXCLUSIVE
    assert settings.max_unacked == 1
    assert settings.visibility_ms > endpoint().timeout_ms
    waited_ms = sum(settings.backoff(count) for count in range(1, settings.max_deliveries))
    assert waited_ms > 10 * 60 * 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"events": ("topic.exploded",)},
        {"events": ("webhook.test",)},
        {"secret": "short"},
        {"secret": "x" * 201},
        {"timeout_ms": 0},
        {"timeout_ms": 60_001},
        {"max_retries": -1},
        {"max_retries": 250},
        {"backoff_ms": 0},
        {"backoff_ms": 2000, "max_backoff_ms": 1000},
        {"topics": tuple(map(str, range(101)))},
        {"description": "x" * 501},
    ],
)
def test_an_endpoint_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    check_endpoint(endpoint())
    with pytest.raises(WebhookError, match="expected"):
        check_endpoint(endpoint(**changes))


def test_a_bad_url_is_an_error_of_the_target() -> None:
    with pytest.raises(WebhookTargetError):
        check_endpoint(endpoint(url="file:///etc/passwd"))


def test_neither_a_secret_nor_a_stored_endpoint_is_printed() -> None:
    assert SECRET not in repr(endpoint())
    assert new_secret() != new_secret()
    assert new_id() != new_id()


def test_a_signature_covers_the_timestamp_and_the_body() -> None:
    body = b'{"id":"evt_1"}'
    expected = hmac.new(SECRET.encode(), b"1700000000." + body, hashlib.sha256).hexdigest()
    assert signature(SECRET, 1_700_000_000, body) == f"sha256={expected}"
    others = {
        signature(SECRET, 1_700_000_001, body),
        signature(SECRET, 1_700_000_000, body + b" "),
        signature(SECRET + "x", 1_700_000_000, body),
    }
    assert signature(SECRET, 1_700_000_000, body) not in others
    assert len(others) == 3


def test_the_headers_of_each_attempt_name_the_same_event() -> None:
    event = Event("evt_1_2", "topic.created", 5, "goqueue/c/1", {})
    first = headers_of(event, encode(event), SECRET, 10, 1)
    second = headers_of(event, encode(event), SECRET, 20, 2)
    assert first["X-GoQueue-Delivery"] == second["X-GoQueue-Delivery"] == "evt_1_2"
    assert first["X-GoQueue-Event"] == "topic.created"
    assert first["User-Agent"] == "GoQueue-Webhook/1.0"
    assert first["X-GoQueue-Signature"] != second["X-GoQueue-Signature"]


def test_every_type_but_the_test_can_be_chosen() -> None:
    assert set(CHOOSABLE) == set(EventType) - {EventType.WEBHOOK_TEST}
