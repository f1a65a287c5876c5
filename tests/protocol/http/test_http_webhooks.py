"""Webhooks from creating one to its dead events, against a real target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from support.server import ServerProcess, make_server
from support.waiting import eventually
from support.webhook_target import WebhookTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.http_api import HttpApi

FLAGS = ("--webhooks-enabled", "--webhooks-allow-private")
QUICK = {"backoff": "50ms", "max_backoff": "100ms"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = make_server(tmp_path_factory.mktemp("webhooks") / "data", *FLAGS)
    server.start()
    yield server
    server.close()


@pytest.fixture
def target() -> Iterator[WebhookTarget]:
    with WebhookTarget() as made:
        yield made


@pytest.fixture
def make(api: HttpApi) -> Iterator[Callable[..., dict[str, Any]]]:
    """Makes webhooks, which are deleted after the test."""
    made: list[str] = []

    def create(url: str, **fields: Any) -> dict[str, Any]:
        answer = api.ask("POST", "/admin/webhooks", {"url": url, **QUICK, **fields})
        assert answer.status == 201, answer
        made.append(answer.json["id"])
        found: dict[str, Any] = answer.json
        return found

    yield create
    for each in made:
        api.ask("DELETE", f"/admin/webhooks/{each}")


def make_topics(api: HttpApi, name: Callable[[str], str], count: int) -> list[str]:
    names = [name("hooked") for _ in range(count)]
    for each in names:
        api.post("/topics", {"name": each, "num_partitions": 1})
    return names


def topics_of(events: list[dict[str, Any]]) -> list[str]:
    return [each["data"]["topic"] for each in events]


def test_what_happens_to_a_topic_is_posted_signed_and_in_order(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    made = make(target.url, topics=[orders := name("orders")])
    api.post("/topics", {"name": orders, "num_partitions": 2})
    api.post(f"/admin/topics/{orders}/partitions", {"count": 5})
    api.ask("DELETE", f"/topics/{orders}")
    eventually(lambda: len(target.ids()) == 3)
    events = target.taken
    assert [each["type"] for each in events] == [
        "topic.created",
        "partition.added",
        "topic.deleted",
    ]
    assert [each["data"]["partitions"] for each in events] == [2, 5, 5]
    assert topics_of(events) == [orders] * 3
    for each in target.received:
        assert each.is_signed_with(made["secret"])
        assert not each.is_signed_with("another secret of the kind")
        assert each.headers["user-agent"] == "GoQueue-Webhook/1.0"
        assert each.headers["x-goqueue-event"] == each.event["type"]
        assert each.headers["x-goqueue-delivery"] == each.event["id"]
        assert each.event["source"].startswith("goqueue/")
        assert "x-goqueue-attempt" in each.headers


def test_a_secret_is_shown_once(
    api: HttpApi, target: WebhookTarget, make: Callable[..., Any], name: Callable[[str], str]
) -> None:
    made = make(target.url, secret="a secret of my own")
    assert made["secret"] == "a secret of my own"
    for path in (f"/admin/webhooks/{made['id']}", "/admin/webhooks"):
        assert b"a secret of my own" not in api.ask("GET", path).body
    changed = api.ask("PATCH", f"/admin/webhooks/{made['id']}", {"description": "chat"}).json
    assert (changed["secret"], changed["description"]) == (None, "chat")
    changed = api.ask("PATCH", f"/admin/webhooks/{made['id']}", {"new_secret": True}).json
    assert changed["secret"].startswith("whsec_")
    make_topics(api, name, 1)
    eventually(lambda: target.received)
    assert target.received[0].is_signed_with(changed["secret"])


def test_filters_leave_out_what_was_not_asked_for(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    mine, other = name("mine"), name("other")
    make(target.url, events=["topic.deleted"], topics=[mine])
    for each in (other, mine):
        api.post("/topics", {"name": each, "num_partitions": 1})
    for each in (other, mine):
        api.ask("DELETE", f"/topics/{each}")
    eventually(target.ids)
    assert [(each["type"], each["data"]["topic"]) for each in target.taken] == [
        ("topic.deleted", mine)
    ]


def test_members_that_come_and_go_are_told(
    api: HttpApi,
    broker: ServerProcess,
    name: Callable[[str], str],
    target: WebhookTarget,
    make: Callable[..., Any],
) -> None:
    (topic,) = make_topics(api, name, 1)
    make(target.url, events=["group.joined", "group.left"])
    shared, log_group = name("shared"), name("log")
    body = {"topics": [topic], "assignment": "shared"}
    member = api.post(f"/groups/{shared}/join", body)["member_id"]
    api.post(f"/groups/{shared}/leave", {"member_id": member})
    consumer = Consumer({"bootstrap.servers": broker.kafka_address, "group.id": log_group})
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.2) or consumer.assignment())
    consumer.close()

    def seen() -> list[tuple[str, str]]:
        return [(each["type"], each["data"]["group"]) for each in target.taken]

    wanted = [
        ("group.joined", shared),
        ("group.left", shared),
        ("group.joined", log_group),
        ("group.left", log_group),
    ]
    eventually(lambda: set(wanted) <= set(seen()), "all of them")
    assert list(dict.fromkeys(seen())) == wanted
    first = target.taken[0]["data"]
    assert first["member"] == member
    assert target.taken[1]["data"]["reason"] == "left"


def test_a_dead_lettered_message_is_told_without_its_contents(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    (topic,) = make_topics(api, name, 1)
    make(target.url, events=["message.dead_lettered"])
    group = name("workers")
    body = {"topics": [topic], "assignment": "shared"}
    member = api.post(f"/groups/{group}/join", body)["member_id"]
    api.publish(topic, "the contents of it")
    path = f"/groups/{group}/poll?member_id={member}&timeout=60s"
    (taken,) = eventually(lambda: api.get(path)["messages"])
    reject = {"receipt_handles": [taken["receipt_handle"]], "reason": "no such customer"}
    api.post("/messages/reject/batch", reject)
    eventually(target.ids)
    (event,) = target.of_type("message.dead_lettered")
    assert event["data"] == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "group": group,
        "reason": "REJECTED",
        "error": "no such customer",
        "attempts": 1,
        "dead_letter_topic": f"{topic}.dlq",
    }
    assert b"the contents of it" not in target.received[0].body


def test_a_failed_event_holds_up_those_behind_it_and_keeps_its_id(
    api: HttpApi, name: Callable[[str], str], make: Callable[..., Any]
) -> None:
    refused = {"left": 3}

    def answer(_event: dict[str, Any]) -> int:
        refused["left"] -= 1
        return 503 if refused["left"] >= 0 else 200

    with WebhookTarget(answer) as target:
        made = make(target.url, events=["topic.created"])
        names = make_topics(api, name, 4)
        eventually(lambda: len(target.ids()) == 4)
        assert topics_of(target.taken) == names
        first = [each.event["id"] for each in target.received[:4]]
        assert len(set(first)) == 1, "nothing overtakes the first"
        attempts = [each.headers["x-goqueue-attempt"] for each in target.received[:4]]
        assert attempts == ["1", "2", "3", "4"]
        listed = api.get(f"/admin/webhooks/{made['id']}/deliveries")
        assert listed["pending"] == 0
        past = list(reversed(listed["deliveries"]))
        assert [each["outcome"] for each in past] == ["retrying"] * 3 + ["delivered"] * 4
        assert [each["status"] for each in past] == [503] * 3 + [200] * 4


def test_an_event_that_fails_too_often_is_dead_and_can_be_redelivered_to_its_endpoint_alone(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    with WebhookTarget(lambda _event: 500) as broken:
        bad = make(broken.url, events=["topic.created"], max_retries=1)["id"]
        make(target.url, events=["topic.created"])
        names = make_topics(api, name, 2)
        dead_path = f"/admin/webhooks/{bad}/dead"
        eventually(lambda: len(api.get(dead_path)["events"]) == 2)
        dead = list(reversed(api.get(dead_path)["events"]))
        assert [each["attempts"] for each in dead] == [2, 2]
        assert "status 500" in dead[0]["error"]
        assert [each.event["data"]["topic"] for each in broken.received] == [
            each for each in names for _ in range(2)
        ]
        ids = [each["event"] for each in dead]
        eventually(lambda: target.ids() == ids)

        broken.answer = lambda _event: 200
        unknown = api.ask("POST", f"/admin/webhooks/{bad}/redeliver", {"events": ["evt_1_1"]})
        assert (unknown.status, unknown.code) == (400, "webhook_refused")
        done = api.post(f"/admin/webhooks/{bad}/redeliver", {"events": [ids[1]]})
        assert done["events"] == 1
        eventually(lambda: broken.ids() == [ids[1]])
        assert [each["event"] for each in api.get(dead_path)["events"]] == [ids[0]]
        assert api.post(f"/admin/webhooks/{bad}/redeliver", {})["events"] == 1
        eventually(lambda: broken.ids() == [ids[1], ids[0]])
        assert api.get(dead_path)["events"] == []
        assert api.post(f"/admin/webhooks/{bad}/redeliver", {})["events"] == 0
        (marker,) = make_topics(api, name, 1)
        eventually(lambda: topics_of(target.taken)[-1:] == [marker])
        assert topics_of(target.taken) == [*names, marker], "the other endpoint got each once"


def test_events_wait_while_a_webhook_is_disabled(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    made = make(target.url, events=["topic.created"], enabled=False)
    names = make_topics(api, name, 2)
    assert target.received == []
    api.ask("PATCH", f"/admin/webhooks/{made['id']}", {"enabled": True})
    eventually(lambda: topics_of(target.taken) == names)


def test_a_changed_url_and_a_deletion_count_from_the_next_attempt_on(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    with WebhookTarget(lambda _event: 500) as broken:
        made = make(broken.url, events=["topic.created"])
        names = make_topics(api, name, 2)
        eventually(lambda: broken.received)
        api.ask("PATCH", f"/admin/webhooks/{made['id']}", {"url": target.url})
        eventually(lambda: topics_of(target.taken) == names)
    deleted = api.ask("DELETE", f"/admin/webhooks/{made['id']}")
    assert deleted.json == {"deleted": made["id"]}
    assert api.ask("GET", f"/admin/webhooks/{made['id']}").code == "unknown_webhook"
    with WebhookTarget() as marker:
        make(marker.url, events=["topic.created"])
        make_topics(api, name, 1)
        eventually(lambda: marker.taken)
    assert topics_of(target.taken) == names


def test_the_test_button_sends_one_event_whatever_the_filters_say(
    api: HttpApi, target: WebhookTarget, make: Callable[..., Any]
) -> None:
    made = make(target.url, events=["broker.ready"])
    path = f"/admin/webhooks/{made['id']}/test"
    told = api.post(path)
    assert (told["type"], told["outcome"], told["status"]) == ("webhook.test", "delivered", 200)
    (received,) = target.received
    assert received.is_signed_with(made["secret"])
    target.answer = lambda _event: 302
    told = api.post(path)
    assert (told["outcome"], told["status"]) == ("failed", 302)
    assert "not followed" in told["error"]
    assert len(target.received) == 2
    target.stop()
    assert api.post(path)["status"] is None


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://224.0.0.1/",
        "http://0.0.0.0:8080/",
        "http://2130706433/",
        "http://0x7f.1/",
        "file:///etc/passwd",
        "http://user:password@example.com/",
    ],
)
def test_a_target_that_may_not_be_called_is_refused_when_it_is_named(
    api: HttpApi, url: str, target: WebhookTarget, make: Callable[..., Any]
) -> None:
    refused = api.ask("POST", "/admin/webhooks", {"url": url})
    assert (refused.status, refused.code) == (400, "webhook_target")
    made = make(target.url)
    refused = api.ask("PATCH", f"/admin/webhooks/{made['id']}", {"url": url})
    assert (refused.status, refused.code) == (400, "webhook_target")
    assert api.get(f"/admin/webhooks/{made['id']}")["url"] == target.url


@pytest.mark.parametrize(
    "fields",
    [{"events": ["nothing"]}, {"secret": "short"}, {"timeout": "2m"}, {"backoff": "0s"}],
)
def test_a_webhook_that_cannot_be_is_refused(
    api: HttpApi, fields: dict[str, Any], target: WebhookTarget
) -> None:
    refused = api.ask("POST", "/admin/webhooks", {"url": target.url, **fields})
    assert (refused.status, refused.code) == (400, "webhook_refused")


@pytest.mark.parametrize("what", ["", "/deliveries", "/dead"])
def test_a_webhook_that_is_not_there_is_not_found(api: HttpApi, what: str) -> None:
    assert api.ask("GET", f"/admin/webhooks/wh_none{what}").code == "unknown_webhook"


def test_the_group_and_the_topic_of_webhooks_are_the_brokers_own(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    made = make(target.url)
    make_topics(api, name, 1)
    eventually(target.ids)
    group = f"__goqueue_webhook_{made['id']}"
    assert group not in str(api.get("/groups"))
    assert "__webhooks" not in str(api.get("/topics"))
    body = {"topics": ["__webhooks"], "assignment": "shared"}
    assert api.ask("POST", f"/groups/{name('thief')}/join", body).status >= 400
    body = {"topics": make_topics(api, name, 1), "assignment": "shared"}
    assert api.ask("POST", f"/groups/{group}/join", body).status >= 400
    assert api.ask("DELETE", "/topics/__webhooks").status >= 400
    forged = {"messages": [{"value": "{}"}]}
    (result,) = api.post("/topics/__webhooks/messages", forged)["results"]
    assert "internal topic" in result["error"]


def test_metrics_count_events_and_attempts(
    api: HttpApi, name: Callable[[str], str], target: WebhookTarget, make: Callable[..., Any]
) -> None:
    made = make(target.url)
    make_topics(api, name, 1)
    eventually(target.ids)
    wanted = f'webhook="{made["id"]}",outcome="delivered"'
    eventually(lambda: wanted in api.metrics())
    assert "goqueue_webhook_events_total" in api.metrics()
