"""How many dead letters there are: letters, not offsets, whoever is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from support.waiting import eventually

if TYPE_CHECKING:
    from support.http_api import HttpApi


def bury_together(bootstrap: str, box: str, who: str, ends: list[bool]) -> None:
    """Put three letters a transaction into a dead-letter topic; False: and abort it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": who})
    producer.init_transactions(90)
    for number, commits in enumerate(ends):
        producer.begin_transaction()
        for letter in range(3):
            producer.produce(box, f"{number}.{letter}", partition=0)
        if commits:
            producer.commit_transaction(90)
        else:
            producer.flush(90)
            producer.abort_transaction(90)


def told(api: HttpApi, topic: str) -> tuple[int, int, int | None]:
    """What the list of a topic, and the list of all topics, say."""
    page: dict[str, Any] = api.get(f"/topics/{topic}/dlq?limit=100")
    line = next(each for each in api.get("/dlq")["topics"] if each["topic"] == topic)
    assert page["total"] == len(page["letters"])
    return page["total"], line["total"], line["newest_at"]


def test_ends_of_transactions_and_what_they_took_back_are_no_letters(api, broker, name) -> None:
    topic = name("topic")
    box = f"{topic}.dlq"
    for each in (topic, box):
        api.post("/topics", {"name": each, "num_partitions": 1})
    bury_together(broker.kafka_address, box, name("tx"), [True, False, True])
    total, listed, newest_at = told(api, topic)
    assert (total, listed) == (6, 6)
    assert newest_at is not None, "the last offset is the end of a transaction"

    offsets = [each["offset"] for each in api.get(f"/topics/{topic}/dlq")["letters"]]
    assert offsets == [0, 1, 2, 8, 9, 10]
    noted = api.post(f"/topics/{topic}/redriven/0", {"ranges": [[2, 9]]})
    assert noted["noted"] == 2
    assert told(api, topic)[:2] == (4, 4)

    bury_together(broker.kafka_address, box, name("more"), [False, True])
    assert told(api, topic)[:2] == (7, 7)
    everywhere = sum(each["total"] for each in api.get("/dlq")["topics"])
    eventually(lambda: api.get("/overview")["totals"]["dead_letters"] == everywhere)

    assert api.ask("DELETE", f"/topics/{topic}/dlq?confirm=true").json["purged"] == 7
    assert told(api, topic) == (0, 0, None)
