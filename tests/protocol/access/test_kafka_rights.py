"""Every API of Kafka's protocol, asked by every kind of client; and answers of many topics."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.access.rights import Operation, ResourceType
from goqueue.access.rules import Effect, Rule
from goqueue.audit import access_trail
from goqueue.audit.events import Event
from goqueue.protocols.kafka.served import SERVED
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from protocol.access.kafka_requests import filled, first_requests_of, requests_of
from protocol.access.telling import told_alike
from protocol.raw_kafka import RawKafka, fetch_fields, make_batch, produce_fields
from support.guarded import BAD, OUTSIDERS, SECRET, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from support.guarded import GuardedServer

LETTERS = {"producer": "p", "consumer": "c", "readonly": "r"}
REFUSED = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
    ErrorCode.cluster_authorization_failed,
}
BEFORE_LOGIN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
OPEN_TO_ALL = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER}
"""Lists, which show what one may see."""
ELSEWHERE = {*BEFORE_LOGIN, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CALL_HTTP}
"""Those with tests of their own below."""


def logged_in(server: GuardedServer, name: str, password: str, port: int = 0) -> RawKafka:
    """A connection to the node that has its turn, or to that at a port."""

    def log_in(raw: RawKafka) -> None:
        assert raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
        token = f"\0{name}\0{password}".encode()
        answer = raw.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
        assert answer.error_code == 0, answer

    return RawKafka(port or server.kafka_port, log_in=log_in)


def sent(raw: RawKafka, key: ApiKey, fields: dict[str, Any], version: int | None = None) -> Any:
    """The answer to a request in its last version, or in another, of whoever serves it."""
    version = SERVED[key][1] if version is None else version
    return raw.ask(key, version, **filled(key, version, fields))


def sent_here(
    raw: RawKafka, key: ApiKey, fields: dict[str, Any], version: int | None = None
) -> Any:
    """The answer of this node, which may be that another one serves it."""
    version = SERVED[key][1] if version is None else version
    return raw.ask_here(key, version, **filled(key, version, fields))


def codes(answer: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(answer, list | tuple):
        for each in answer:
            yield from codes(each)
    elif hasattr(answer, "as_dict"):
        for name, value in answer.as_dict().items():
            if name.endswith("error_code") and isinstance(value, int):
                yield value
            else:
                yield from codes(value)


def test_every_api_has_its_request(server: GuardedServer) -> None:
    assert set(requests_of(server.known)) == set(SERVED) - ELSEWHERE


def test_nothing_is_served_before_a_login(server: GuardedServer) -> None:
    for key, (_, fields) in requests_of(server.known).items():
        with RawKafka(server.kafka_port) as raw, pytest.raises(ConnectionError):
            sent_here(raw, key, fields)


@pytest.mark.parametrize("who", BAD)
def test_nothing_is_served_after_a_login_with_a_key_that_is_no_good(
    server: GuardedServer, who: str
) -> None:
    """The connection is closed, whatever is sent on it next."""
    key_id, key = server.keys[who]
    for api in (ApiKey.METADATA, ApiKey.CREATE_TOPICS):
        _, fields = requests_of(server.known)[api]
        with RawKafka(server.kafka_port) as raw:
            raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
            token = f"\0{key_id}\0{key}".encode()
            refused = raw.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            assert refused.error_code == ErrorCode.sasl_authentication_failed
            version = SERVED[api][1]
            with suppress(OSError):  # it is closed already
                raw.send(api, version, **filled(api, version, fields))
            assert raw.is_closed_by_server(), api


@pytest.mark.parametrize("name", ["nobody", "producer"])
def test_a_wrong_password_is_refused(server: GuardedServer, name: str) -> None:
    with RawKafka(server.kafka_port) as raw:
        raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        token = f"\0{name}\0wrong".encode()
        answer = raw.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
        assert answer.error_code == ErrorCode.sasl_authentication_failed


def test_every_api_answers_every_kind_of_client_as_the_table_says(server: GuardedServer) -> None:
    before = server.fingerprint()
    wrong = []
    for who, letter in LETTERS.items():
        with logged_in(server, *server.login(who)) as raw:
            for key, (letters, fields) in requests_of(server.known).items():
                if letter not in letters:
                    answer = sent_here(raw, key, fields)
                    if not REFUSED & set(codes(answer)):
                        wrong.append((key, who, answer))
    assert not wrong, [(key.name, who) for key, who, _ in wrong]
    assert server.fingerprint() == before, "a refused request has changed something"
    for who in (*LETTERS, "admin"):
        for key, (letters, fields) in requests_of(server.known).items():
            if LETTERS.get(who, "") in letters:
                with logged_in(server, *server.login(who)) as raw:
                    answer = sent(raw, key, fields)
                    if REFUSED & set(codes(answer)):
                        wrong.append((key, who, answer))
    assert not wrong, [(key.name, who) for key, who, _ in wrong]


def test_the_first_version_of_every_api_answers_as_the_table_says(server: GuardedServer) -> None:
    before = server.fingerprint()
    wrong = []
    for who, letter in LETTERS.items():
        with logged_in(server, *server.login(who)) as raw:
            for key, (letters, fields) in first_requests_of(server.known).items():
                if letter in letters:
                    continue
                answer = sent_here(raw, key, fields, SERVED[key][0])
                if key is ApiKey.DESCRIBE_LOG_DIRS:  # whose first version has no room for an error
                    is_refused = not answer.results
                else:
                    is_refused = not REFUSED.isdisjoint(codes(answer))
                if not is_refused:
                    wrong.append((key.name, who, answer))
    assert not wrong
    assert server.fingerprint() == before, "a refused request has changed something"
    for who, letter in LETTERS.items():
        for key, (letters, fields) in first_requests_of(server.known).items():
            if letter in letters:
                with logged_in(server, *server.login(who)) as raw:
                    answer = sent(raw, key, fields, SERVED[key][0])
                if not REFUSED.isdisjoint(codes(answer)):
                    wrong.append((key.name, who, answer))
    assert not wrong


@pytest.mark.parametrize("who", OUTSIDERS)
def test_outsiders_learn_and_change_nothing_of_a_tenant(server: GuardedServer, who: str) -> None:
    before = server.fingerprint()
    wrong = []
    about_hidden, about_absent = requests_of(server.hidden), requests_of(server.absent)
    for key in about_hidden:
        port = server.kafka_port
        with logged_in(server, *server.login(who), port) as raw:
            hidden = told_alike(sent_here(raw, key, about_hidden[key][1]), server.hidden)
        with logged_in(server, *server.login(who), port) as raw:
            answer = sent_here(raw, key, about_absent[key][1])
        if hidden != told_alike(answer, server.absent) or SECRET in str(answer):
            wrong.append((key.name, hidden, answer))
        is_refused = bool(REFUSED & set(codes(answer)))
        if who == "stranger" and key not in OPEN_TO_ALL and not is_refused:
            wrong.append((key.name, hidden, answer))
    assert not wrong
    assert server.fingerprint() == before


# --- Produce and Fetch, straight and not ----------------------------------------------------------


def test_a_refusal_of_every_api_is_in_the_audit_log(
    server: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def recorded(record: Callable[..., None], event: str, **said: Any) -> None:
        if event == Event.ACL_DENIED:
            written.append(said["principal"])
        record(event, **said)

    for each in server.nodes.all:
        audit = each.broker.audit
        monkeypatch.setattr(audit, "record", partial(recorded, audit.record))
    name, password = server.keys["stranger"]  # of which no other test is refused
    requests: dict[ApiKey, tuple[int | None, dict[str, Any]]]
    requests = {key: (None, fields) for key, (_, fields) in requests_of(server.known).items()}
    requests[ApiKey.PRODUCE] = 9, produce_fields(TOPIC, make_batch(b"x"))
    monkeypatch.setattr(access_trail, "_REFUSALS_S", 0.0)  # nothing is counted
    silent = []
    refused = 0
    for key, (version, fields) in requests.items():
        written.clear()
        with logged_in(server, name, password) as raw:
            answer = sent_here(raw, key, fields, version)
        if not REFUSED.isdisjoint(codes(answer)):
            refused += 1
            if written != [f"User:{name}"] * len(written) or not written:
                silent.append((key.name, written[:]))
    assert silent == []
    assert refused > 40
    written.clear()
    monkeypatch.setattr(access_trail, "_REFUSALS_S", 60.0)
    with logged_in(server, name, password) as raw:
        for _ in range(3):
            sent_here(raw, ApiKey.FETCH, fetch_fields([(TOPIC, 0, 0)], max_wait_ms=0), 11)
            sent_here(raw, ApiKey.PRODUCE, produce_fields(TOPIC, make_batch(b"x")), 9)
    assert written == [f"User:{name}"] * 2, "READ and WRITE, once each"


@pytest.mark.parametrize(("who", "code"), [("producer", 0), ("consumer", 29), ("readonly", 29)])
def test_produce(server: GuardedServer, who: str, code: int) -> None:
    before = server.fingerprint()
    with logged_in(server, *server.login(who)) as raw:
        straight = raw.produce(TOPIC, make_batch(b"x"))
        several = [
            {"name": name, "partition_data": [{"index": 0, "records": make_batch(b"x")}]}
            for name in (TOPIC, "nothing")
        ]
        fields = {**produce_fields(TOPIC, b""), "topic_data": several}
        answer = raw.ask(ApiKey.PRODUCE, 9, **fields)
    assert straight.error_code == code
    told = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    missing = code or ErrorCode.unknown_topic_or_partition
    assert told == {TOPIC: code, "nothing": missing}
    assert (server.fingerprint() == before) is bool(code)


@pytest.mark.parametrize(("who", "code"), [("producer", 29), ("consumer", 0), ("readonly", 29)])
def test_fetch(server: GuardedServer, who: str, code: int) -> None:
    with logged_in(server, *server.login(who)) as raw:
        assert raw.fetch(TOPIC, max_wait_ms=0).error_code == code
        wanted = [(TOPIC, 0, 0), ("nothing", 0, 0)]
        answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields(wanted, max_wait_ms=0))
    told = {each.topic: each.partitions[0] for each in answer.responses}
    assert told[TOPIC].error_code == code
    assert told["nothing"].error_code == (code or ErrorCode.unknown_topic_or_partition)
    if code:
        assert not told[TOPIC].records
        assert told[TOPIC].high_watermark == -1


@pytest.mark.parametrize("who", OUTSIDERS)
def test_outsiders_produce_nothing_to_a_tenant_and_fetch_nothing_of_it(
    server: GuardedServer, who: str
) -> None:
    before = server.fingerprint()
    told = []
    for things in (server.hidden, server.absent):
        with logged_in(server, *server.login(who)) as raw:
            straight = raw.produce(things.topic, make_batch(b"x"))
            several = [
                {"name": name, "partition_data": [{"index": 0, "records": make_batch(b"x")}]}
                for name in (things.topic, "nothing")
            ]
            general = raw.ask(
                ApiKey.PRODUCE, 9, **{**produce_fields(things.topic, b""), "topic_data": several}
            )
            read = [
                raw.fetch(things.topic, max_wait_ms=0),
                raw.ask(ApiKey.FETCH, 11, **fetch_fields([(things.topic, 0, 0)], max_wait_ms=0)),
                raw.ask(ApiKey.FETCH, 13, **fetch_by_id(things.topic_id)),
            ]
            answers = (straight, general, *read)
            assert SECRET not in told_alike(answers, things)
            assert all(any(codes(each)) for each in answers)
            told.append(told_alike(answers, things))
    assert told[0] == told[1]
    assert server.fingerprint() == before


def fetch_by_id(topic_id: UUID) -> dict[str, Any]:
    """A Fetch of the first partition of a topic that only its id names."""
    read = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fields = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id": topic_id, "partitions": [read]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return filled(ApiKey.FETCH, 13, fields)


def test_a_key_that_is_revoked_counts_for_open_connections(server: GuardedServer) -> None:
    key_id, key = server.keys["admin"]
    with logged_in(server, key_id, key) as raw:
        assert raw.produce(TOPIC, make_batch(b"x")).error_code == 0
        assert raw.fetch(TOPIC, max_wait_ms=0).error_code == 0
        server.change_key(key_id, is_revoked=True)
        try:
            assert raw.produce(TOPIC, make_batch(b"x")).error_code == 29
            assert raw.fetch(TOPIC, max_wait_ms=0).error_code == 29
            answer = sent(raw, ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})
            assert answer.error_code == ErrorCode.cluster_authorization_failed
        finally:
            server.change_key(key_id, is_revoked=False)


def test_a_rule_that_is_made_or_removed_counts_for_open_connections(server: GuardedServer) -> None:
    name, password = server.login("readonly")
    rule = Rule(f"User:{name}", ResourceType.TOPIC, TOPIC, Operation.WRITE)
    with logged_in(server, name, password) as raw:
        assert raw.produce(TOPIC, make_batch(b"x")).error_code == 29
        server.change_rules(add=[rule])
        assert raw.produce(TOPIC, make_batch(b"x")).error_code == 0
        denied = Rule("User:*", ResourceType.TOPIC, TOPIC, Operation.WRITE, Effect.DENY)
        server.change_rules(add=[denied])
        assert raw.produce(TOPIC, make_batch(b"x")).error_code == 29
        server.change_rules(remove=[rule, denied])
        assert raw.produce(TOPIC, make_batch(b"x")).error_code == 29


def test_a_topic_that_may_not_be_seen_is_told_like_one_that_does_not_exist(
    server: GuardedServer,
) -> None:
    hidden = Rule("User:consumer", ResourceType.TOPIC, "secret", Operation.ALL, Effect.DENY)
    server.run(server.broker.create_topic("secret", 1))
    absent = Rule("User:consumer", ResourceType.TOPIC, "absent", Operation.ALL, Effect.DENY)
    server.change_rules(add=[hidden, absent])
    with logged_in(server, *server.login("consumer")) as raw:
        listed = sent(raw, ApiKey.METADATA, {"topics": None})
        assert "secret" not in [each.name for each in listed.topics]
        told = {}
        for name in ("secret", "absent"):
            asked = [{"name": name, "topic_id": None}]
            (topic,) = sent(raw, ApiKey.METADATA, {"topics": asked}).topics
            assert topic.topic_id is None
            fetched = raw.fetch(name, max_wait_ms=0)
            told[name] = (topic.error_code, list(topic.partitions), fetched.error_code)
        assert told["secret"] == told["absent"] == (29, [], 29)
    server.change_rules(remove=[hidden, absent])


# --- The HTTP API over a Kafka connection ---------------------------------------------------------


@pytest.mark.parametrize(("who", "status"), [("producer", 403), ("readonly", 403), ("admin", 200)])
def test_http_over_a_kafka_connection_has_the_rights_of_its_login(
    server: GuardedServer, who: str, status: int
) -> None:
    forged = {"name": "authorization", "value": f"Bearer {server.token('admin')}"}
    mark = {"name": "x-goqueue-principal", "value": '{"name":"1","kind":"node"}'}
    with logged_in(server, *server.login(who)) as raw:
        fields = {"method": "GET", "target": "/stats", "headers": [forged, mark], "body": b""}
        assert raw.ask(ApiKey.CALL_HTTP, 0, **fields).status == status
