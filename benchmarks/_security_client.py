"""librdkafka with and without a login, and logins one after the other (see `_client.py`)."""

from __future__ import annotations

import itertools
import selectors
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, cast

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from benchmarks._client import serve_calls
from benchmarks.harness import percentiles
from goqueue.records import Record, encode
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of

CHUNK: Final = 1000
MAX_QUEUED: Final = 50_000
_NEVER_S: Final = 60.0
_WARM_UP_S: Final = 0.5
_MS: Final = 1000.0
_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_THREADS: Final = 4
_FETCH_BYTES: Final = 1 << 20


def _settings(address: str, user: str | None, *, tls: bool = False) -> dict[str, Any]:
    """A user's password is the name, twice."""
    settings: dict[str, Any] = {"bootstrap.servers": address}
    if user is not None:
        settings |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": user * 2,
        }
    if tls:  # with a certificate that the broker has signed itself
        settings |= {"security.protocol": "SASL_SSL", "enable.ssl.certificate.verification": False}
    return settings


@cache
def _producer(address: str, user: str | None, linger_ms: int, *, tls: bool = False) -> Producer:
    extra = {"acks": "all", "linger.ms": linger_ms}
    return Producer(_settings(address, user, tls=tls) | extra)


def make(address: str, user: str | None, topic: str, *, tls: bool = False) -> None:
    """A topic of one partition."""
    admin = AdminClient(_settings(address, user, tls=tls))
    admin.create_topics([NewTopic(topic, 1)])[topic].result(_NEVER_S)


def make_rules(address: str, user: str, writer: str, topic: str, count: int) -> int:
    """The rule that lets `writer` write, among so many others; returns how many there are."""
    admin = AdminClient(_settings(address, user))
    rules = [_rule(f"User:user-{number % 50}", f"topic-{number}") for number in range(count - 2)]
    rules += [_rule(f"User:{writer}", topic), _rule(f"User:{writer}", "topic-", is_prefix=True)]
    made = admin.create_acls(rules)
    for future in made.values():
        future.result(_NEVER_S)
    return len(made)


def _rule(principal: str, name: str, *, is_prefix: bool = False) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
    resource, allow = ResourceType.TOPIC, AclPermissionType.ALLOW
    return AclBinding(resource, name, pattern, principal, "*", AclOperation.WRITE, allow)


def produce(address: str, user: str | None, topic: str, count: int) -> dict[str, Any]:
    """Send messages of 100 bytes, and wait for all acknowledgements."""
    producer = _producer(address, user, 5)
    producer.list_topics(topic, timeout=_NEVER_S)
    messages = [{"value": b"x" * 100} for _ in range(CHUNK)]
    started = time.perf_counter()
    for _ in range(count // CHUNK):
        while len(producer) > MAX_QUEUED:
            producer.poll(0.001)
        producer.produce_batch(topic, messages)
        producer.poll(0)
    left = producer.flush(_NEVER_S)
    return {"seconds": time.perf_counter() - started, "left": left}


def latencies(
    address: str,
    user: str | None,
    topic: str,
    seconds: float,
    pace: int = 0,
    *,
    tls: bool = False,
) -> dict[str, Any]:
    """One message after the other; how long each takes to be acknowledged, in milliseconds.

    At most `pace` messages a second, if it is given.
    """
    producer = _producer(address, user, 0, tls=tls)
    producer.list_topics(topic, timeout=_NEVER_S)
    taken: list[float] = []
    began = time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        producer.produce(topic, b"x" * 100)
        left = producer.flush(_NEVER_S)
        if left:
            return {"left": left}
        done = time.perf_counter()
        if now > began + _WARM_UP_S:
            taken.append((done - now) * _MS)
        if pace:
            time.sleep(max(0.0, now + 1 / pace - done))
    return {"left": 0, "count": len(taken), **percentiles(taken, (50, 99))}


def flood(
    address: str,
    user: str,
    topic: str,
    seconds: float,
    count: int,
    *,
    tls: bool = False,
) -> dict[str, Any]:
    """Publish all that the broker takes, with so many producers; messages and seconds."""
    extra = {"acks": "all", "linger.ms": 5, "batch.num.messages": 10_000, "client.id": "flood"}
    producers = [Producer(_settings(address, user, tls=tls) | extra) for _ in range(count)]
    messages = [{"value": b"x" * 1000} for _ in range(CHUNK)]
    began, sent = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        for producer in producers:
            if len(producer) < MAX_QUEUED:
                sent += producer.produce_batch(topic, messages)
            producer.poll(0)
        if all(len(producer) >= MAX_QUEUED for producer in producers):
            time.sleep(0.001)
    left = sum(producer.flush(_NEVER_S) for producer in producers)
    return {"count": sent - left, "seconds": time.perf_counter() - began}


def small_requests(
    address: str, user: str, topic: str, seconds: float, count: int
) -> dict[str, Any]:
    """Requests of one message each, as many as are answered, on so many connections."""
    data = [{"index": 0, "records": bytes(encode([Record(0, 1000, None, b"x" * 100)]))}]
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 60_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }
    return _ask_all(address, user, seconds, count, _request(ApiKey.PRODUCE, 9, fields))


def fetches(address: str, user: str, topic: str, seconds: float, count: int) -> dict[str, Any]:
    """Fetches of up to a megabyte, as many as are answered, on so many connections."""
    wanted = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": _FETCH_BYTES,
    }
    fields = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": _FETCH_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return _ask_all(address, user, seconds, count, _request(ApiKey.FETCH, 11, fields))


def _request(key: ApiKey, version: int, fields: dict[str, Any]) -> bytes:
    schema = schema_of(key, version, "request")
    body = bytearray()
    writer_of(schema)(body, fields)
    head = struct.pack(">hhih", key, version, 1, -1) + b"\0" * schema.has_flexible_header
    return struct.pack(">i", len(head) + len(body)) + head + body


def _ask_all(address: str, user: str, seconds: float, count: int, request: bytes) -> dict[str, Any]:
    """Ask the same on all connections, again at each answer; requests and seconds."""
    selector, answered = selectors.DefaultSelector(), 0
    for _ in range(count):
        sock = _logged_in(address, user)
        selector.register(sock, selectors.EVENT_READ, _Missing())
        sock.sendall(request)
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        for key, _ in selector.select(1.0):
            sock = cast("socket.socket", key.fileobj)
            if key.data.take(sock.recv(_FETCH_BYTES)):
                answered += 1
                sock.sendall(request)
    took = time.perf_counter() - began
    for key in list(selector.get_map().values()):
        cast("socket.socket", key.fileobj).close()
    return {"count": answered, "seconds": took}


class _Missing:
    """What is to come of one answer."""

    def __init__(self) -> None:
        self._head = b""
        self._bytes = 0

    def take(self, data: bytes) -> bool:
        """Whether the answer is whole with this."""
        if len(self._head) < 4:
            self._head += data[:4]
            (self._bytes,) = struct.unpack(">i", self._head)
            data = data[4:]
        self._bytes -= len(data)
        if self._bytes > 0:
            return False
        self._head = b""
        return True


def log_in(address: str, users: list[str], seconds: float, per_minute: int) -> dict[str, Any]:
    """Connect and log in with PLAIN, one user after the other, at a steady pace."""
    turn = itertools.cycle(users)

    def one(_: int) -> tuple[int, int]:
        done = refused = 0
        while time.perf_counter() < began + seconds:
            behind_s = began + done * _THREADS * 60 / per_minute - time.perf_counter()
            if behind_s > 0:
                time.sleep(behind_s)
            refused += not _login(address, next(turn))
            done += 1
        return done, refused

    began = time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as pool:
        counted = list(pool.map(one, range(_THREADS)))
    done, refused = (sum(each) for each in zip(*counted, strict=True))
    return {"logins": done, "refused": refused, "seconds": time.perf_counter() - began}


def _connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=_NEVER_S)


def _login(address: str, user: str) -> bool:
    with _connect(address) as sock:
        return _is_let_in(sock, user)


def _logged_in(address: str, user: str) -> socket.socket:
    sock = _connect(address)
    if not _is_let_in(sock, user):
        raise PermissionError(user)
    return sock


def _is_let_in(sock: socket.socket, user: str) -> bool:
    plain = f"\0{user}\0{user * 2}".encode()
    _ask(sock, _HANDSHAKE, 1, struct.pack(">h", 5) + b"PLAIN")
    answer = _ask(sock, _AUTHENTICATE, 1, struct.pack(">i", len(plain)) + plain)
    code: int = struct.unpack_from(">h", answer, 4)[0]
    return code == 0


def _ask(sock: socket.socket, key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", key, version, 1, -1) + body
    sock.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    return sock.recv(size, socket.MSG_WAITALL)


def add_user(address: str, user: str) -> None:
    """A user more, after which the broker checks every password anew."""
    name = f"extra-{time.monotonic_ns()}"
    alteration = UserScramCredentialUpsertion(
        name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"a password"
    )
    admin = AdminClient(_settings(address, user))
    admin.alter_user_scram_credentials([alteration])[name].result(_NEVER_S)


if __name__ == "__main__":
    publishing = (make, produce, latencies, flood, small_requests, fetches)
    functions = (*publishing, make_rules, log_in, add_user)
    serve_calls({each.__name__: each for each in functions})
