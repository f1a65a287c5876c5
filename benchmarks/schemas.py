"""What it costs to hold messages against their schemas."""

from __future__ import annotations

import base64
import json
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks._brokers import HOST, http_port, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._schema_messages import checked, messages
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark
from goqueue.records import Record, decode_rows, encode

if TYPE_CHECKING:
    from benchmarks._brokers import BrokerProcess
    from goqueue.schemas.model import Schema, Validator

NOTHING: Final = "no validation"
BATCH: Final = 100
VALIDATED_TURNS: Final = 15
PRODUCED: Final = 20_000
PRODUCE_TURNS: Final = 7


@benchmark("validate", "Open a batch of 1 KB messages and hold each against its schema")
def validate(run: Run) -> None:
    for kind, (validator, data) in checked().items():
        turns = Turns(plain=NOTHING)
        batch = memoryview(encode([Record(at, 0, None, data, ()) for at in range(BATCH)]))
        expect(_misfits(validator, batch) == 0, f"{kind}: a message does not fit")
        bad = memoryview(encode([Record(0, 0, None, data[:-1], ())]))
        expect(_misfits(validator, bad) == 1, f"{kind}: a damaged message fits")
        for _ in run.progress(VALIDATED_TURNS, kind.value):
            rows = turns.call(NOTHING, partial(decode_rows, batch, 0))
            expect(len(rows) == BATCH, f"{len(rows)} messages of {BATCH}")
            way = f"a {kind} message of {len(data)} bytes"
            misfits = turns.call(way, partial(_misfits, validator, batch))
            expect(misfits == 0, f"{misfits} messages do not fit")
        turns.report_rates(run, f"{kind}:", BATCH, "messages/s")
    run.note(f"batches of {BATCH} messages, opened in both cases; {VALIDATED_TURNS} turns")
    run.note("JSON: a type for each field, all required, no others, a pattern, bounds")


def _misfits(validator: Validator, batch: memoryview) -> int:
    return sum(validator.check(row.value or b"") is not None for row in decode_rows(batch, 0))


@benchmark("produce", "librdkafka produces 1 KB messages to topics with and without validation")
def produce(run: Run) -> None:
    turns = Turns(plain=NOTHING)
    used_s: dict[str, float] = {}
    with (
        start_goqueue(run.scratch / "data") as broker,
        ClientProcess("_schema_client") as client,
    ):
        ways = _make_topics(client, broker)
        for turn in run.progress(PRODUCE_TURNS + 1, "produce"):
            for way, (topic, value) in ways.items():
                before_s = broker.cpu_s()
                sent = client.call(
                    "produce", address=broker.address, topic=topic, value=value, count=PRODUCED
                )
                expect(sent["left"] == 0, f"{way}: {sent['left']} messages were left")
                if turn > 0:  # the first one opens connections and compiles validators
                    turns.add(way, sent["seconds"])
                    used_s[way] = used_s.get(way, 0.0) + broker.cpu_s() - before_s
        for way, (topic, _) in ways.items():
            end = client.call("end", address=broker.address, topic=topic)
            stored = PRODUCED * (PRODUCE_TURNS + 1)
            expect(end == stored, f"{way}: {stored} acknowledged, {end} stored")
    turns.report_rates(run, "messages:", PRODUCED, "messages/s")
    _report_cpu(run, used_s)
    run.note(f"{PRODUCE_TURNS} turns of {PRODUCED} messages, 1 partition, acks=all, linger 5 ms")
    run.note("both cores are shared with the client; the end offsets were what was acknowledged")


def _report_cpu(run: Run, used_s: dict[str, float]) -> None:
    """What the broker itself spends on a message, whatever the client can send."""
    plain_s = used_s[NOTHING]
    for way, seconds in used_s.items():
        each_us = seconds / (PRODUCED * PRODUCE_TURNS) * 1e6
        label = f"broker CPU a message: {way}"
        if way == NOTHING:
            run.row(label, each_us, "µs")
        else:
            run.row(label, each_us, "µs", seconds / plain_s, f"broker CPU a message: {NOTHING}")


def _make_topics(client: ClientProcess, broker: BrokerProcess) -> dict[str, tuple[str, str]]:
    """Ways by name: a topic each, and the message that it is sent in base64."""
    known = messages()
    ways = {}
    for kind, (schema, data) in known.items():
        topic = f"validated-{kind}"
        _register(broker, f"{topic}-value", schema)
        settings = {"goqueue.schema.validation": "latest"}
        client.call("make", address=broker.address, topic=topic, settings=settings)
        ways[f"{kind}, latest"] = (topic, base64.b64encode(data).decode())
    plain = next(iter(ways.values()))[1]
    client.call("make", address=broker.address, topic="plain", settings={})
    return {NOTHING: ("plain", plain), **ways}


def _register(broker: BrokerProcess, subject: str, schema: Schema) -> None:
    address = f"{HOST}:{http_port(broker)}"
    body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type}
    request = urllib.request.Request(
        f"http://{address}/subjects/{subject}/versions", json.dumps(body).encode(), method="POST"
    )
    with urllib.request.urlopen(request) as response:
        expect(response.status == 200, f"{subject} was not registered")
