"""The client keeps its rules against members that answer late, wrongly or not at all."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from goqueue.cluster.etcd.client import Timing
from goqueue.cluster.etcd.store import EtcdMetadataStore
from goqueue.cluster.metadata import (
    Change,
    Changes,
    Committed,
    Condition,
    Conflict,
    Put,
    Revision,
    Unknown,
)
from goqueue.model.errors import (
    InvalidMetadataRequestError,
    MetadataCompactedError,
    MetadataUnavailableError,
)
from goqueue.runtime.http_connection import Endpoint
from support.clocks import ManualClock
from support.scenarios import scenario
from support.server import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

HOST: Final = "127.0.0.1"
QUICK: Final = Timing(attempt_s=0.2, call_s=1.0, silence_s=0.2, pause_s=0.001)


class Gateway:
    """A member that answers what the test says, in turn; the last answer is given again."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        """None: no answer at all, and the connection stays open."""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.heads: list[bytes] = []
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                body = json.loads(await reader.readexactly(length))
                self.heads.append(head)
                self.requests.append((head.split()[1].decode(), body))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    await reader.read()
                    break
                writer.write(answer)
                if b"Connection: close" in answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def answer(body: object, status: int = 200) -> bytes:
    data = json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(data), data)


def stream(*lines: object, pieces: int = 7, is_ended: bool = True) -> bytes:
    """Lines in chunks that end anywhere."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    chunks = [data[at : at + pieces] for at in range(0, len(data), pieces)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    end = b"0\r\n\r\n" if is_ended else b""
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sent + end


def failure(code: int, status: int = 503) -> bytes:
    return answer({"code": code, "message": "etcdserver: no"}, status)


def text(value: str) -> str:
    return b64encode(value.encode()).decode()


@asynccontextmanager
async def opened(
    *gateways: Gateway, prefix: str = "", timing: Timing = QUICK
) -> AsyncIterator[EtcdMetadataStore]:
    servers = [await asyncio.start_server(each.serve, HOST, each.port) for each in gateways]
    urls = [each.url for each in gateways]
    store = EtcdMetadataStore(urls, clock=ManualClock(), prefix=prefix, timing=timing)
    try:
        yield store
    finally:
        await store.close()
        for server in servers:
            server.close()


COMMITTED: Final = answer({"header": {"revision": "7"}, "succeeded": True})
FOUND: Final = answer(
    {"header": {"revision": "9"}, "kvs": [{"key": text("a"), "mod_revision": "4"}], "count": "1"}
)
GARBAGE: Final = b"SSH-2.0-OpenSSH_9.2\r\n\r\n"
CLOSED: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf"


# --- transactions


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(failure(14), id="unavailable"),
        pytest.param(failure(4, 504), id="deadline"),
        pytest.param(failure(15, 500), id="corrupt"),
        pytest.param(GARBAGE, id="garbage"),
        pytest.param(CLOSED, id="half"),
        pytest.param(None, id="silence"),
        pytest.param(answer([1]), id="other json"),
        pytest.param(b"HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\nbad", id="proxy"),
    ],
)
@scenario
async def test_a_transaction_is_sent_once_and_without_an_answer_it_is_unknown(
    reply: bytes | None,
) -> None:
    first, second = Gateway(reply), Gateway(COMMITTED)
    async with opened(first, second) as store:
        assert isinstance(await store.transact([], [Put("a", b"1")]), Unknown)
        assert (len(first.requests), len(second.requests)) == (1, 0)
        assert await store.transact([], [Put("a", b"1")]) == Committed(Revision(7))
        assert len(second.requests) == 1


@scenario
async def test_a_member_that_cannot_be_reached_was_sent_nothing_so_the_next_one_is_asked() -> None:
    away, there = Gateway(), Gateway(COMMITTED)
    async with opened(there) as _:
        store = EtcdMetadataStore([away.url, there.url], clock=ManualClock(), timing=QUICK)
        assert await store.transact([], [Put("a", b"1")]) == Committed(Revision(7))
        await store.close()
    store = EtcdMetadataStore([away.url, away.url], clock=ManualClock(), timing=QUICK)
    with pytest.raises(MetadataUnavailableError, match=r"no member of etcd answers, of 2.*check"):
        await store.transact([], [Put("a", b"1")])
    with pytest.raises(MetadataUnavailableError):
        await store.get("a")
    await store.close()


@scenario
async def test_what_etcd_refuses_did_not_happen() -> None:
    gateway = Gateway(failure(3, 400), failure(8, 429))
    async with opened(gateway) as store:
        with pytest.raises(InvalidMetadataRequestError):
            await store.transact([], [Put("a", b"1")])
        with pytest.raises(MetadataUnavailableError, match="cluster health"):
            await store.transact([], [Put("a", b"1")])


@scenario
async def test_fields_that_are_left_out_are_false_and_empty() -> None:
    read = {"response_range": {"header": {"revision": "7"}}}
    gateway = Gateway(answer({"header": {"revision": "7"}, "responses": [read]}), answer({}))
    async with opened(gateway, prefix="goqueue/mine/") as store:
        result = await store.transact([Condition("a", Revision(3))], [Put("a", b"\xff")])
        assert result == Conflict({"a": None})
        ((_, asked),) = gateway.requests
        assert asked["compare"][0]["mod_revision"] == "3"
        assert asked["compare"][0]["key"] == text("goqueue/mine/a")
        assert asked["success"][0]["request_put"]["value"] == "/w=="
        assert await store.get("a") is None
        assert b"Grpc-Metadata-hasleader: true" in gateway.heads[0]


# --- readings


@pytest.mark.parametrize("reply", [failure(14), GARBAGE, CLOSED, None, answer([1])])
@scenario
async def test_a_reading_goes_on_at_the_next_member_and_stays_there(reply: bytes | None) -> None:
    first, second = Gateway(reply), Gateway(FOUND)
    async with opened(first, second) as store:
        for _ in range(3):
            entry = await store.get("a")
            assert entry is not None
            assert entry.revision == 4
            assert [path for path, _ in first.requests] == ["/v3/kv/range"]


@scenario
async def test_a_caller_that_gives_up_leaves_no_answer_for_the_next_one() -> None:
    gateway = Gateway(None, FOUND)
    async with opened(gateway, timing=QUICK._replace(attempt_s=30)) as store:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.get("b"), 0.05)
        assert (await store.get("a")) is not None
        assert len(gateway.requests) == 2


@scenario
async def test_a_page_that_was_compacted_meanwhile_is_read_again_from_the_start() -> None:
    def page(key: str, revision: int, **others: object) -> bytes:
        found = [{"key": text(key), "mod_revision": "4"}]
        return answer({"header": {"revision": str(revision)}, "kvs": found, **others})

    gateway = Gateway(
        page("a", 9, more=True), failure(11, 400), page("b", 12, more=True), page("c", 15)
    )
    async with opened(gateway) as store:
        snapshot = await store.range("")
        assert [entry.key for entry in snapshot.entries] == ["b", "c"]
        assert snapshot.revision == 12
        last = gateway.requests[-1][1]
        assert (last["key"], last["revision"]) == (text("b\0"), "12")


# --- watches


def events(revision: int, *found: tuple[str, str | None], ahead: int = 0) -> dict[str, Any]:
    told = [
        {"kv": {"key": text(key), "mod_revision": str(revision)}}
        | ({"type": "DELETE"} if value is None else {})
        for key, value in found
    ]
    for each, (_, value) in zip(told, found, strict=True):
        if value:
            each["kv"]["value"] = text(value)  # type: ignore[index]
    return {"result": {"header": {"revision": str(revision + ahead)}, "events": told}}


PROGRESS: Final = {"result": {"header": {"revision": "99"}}}


@pytest.mark.parametrize(
    "end",
    [
        lambda *lines: stream(*lines, is_ended=True),
        lambda *lines: stream(*lines, is_ended=False),
        lambda *lines: stream(*lines, {"error": {"code": 14, "message": "no leader"}}),
        lambda *lines: stream(*lines, {"result": {"canceled": True}}),
        lambda *lines: stream(*lines, "something else"),
    ],
    ids=["ended", "silent", "no leader", "canceled", "garbage"],
)
@scenario
async def test_a_watch_goes_on_at_the_next_member_after_the_last_event_and_no_header(
    end: Callable[..., bytes],
) -> None:
    first = Gateway(end(events(5, ("b", "1"), ("a", None), ahead=20), PROGRESS))
    second = Gateway(stream(events(5, ("a", None)), events(6, ("c", "")), is_ended=False))
    async with opened(first, second) as store:
        watch = store.watch("", Revision(4))
        assert [await anext(watch), await anext(watch)] == [
            Changes(Revision(5), (Change("a", None), Change("b", b"1"))),
            Changes(Revision(6), (Change("c", b""),)),
        ]
        asked = [each["create_request"] for _, each in (*first.requests, *second.requests)]
        assert [each["start_revision"] for each in asked] == ["5", "6"]
        assert all(each["progress_notify"] for each in asked)


@scenario
async def test_several_revisions_of_one_message_are_told_apart() -> None:
    both = events(5, ("b", "1"), ("a", "2"))
    both["result"]["events"] += events(6, ("a", None))["result"]["events"]
    async with opened(Gateway(stream(both, is_ended=False))) as store:
        watch = store.watch("", Revision(4))
        assert await anext(watch) == Changes(Revision(5), (Change("a", b"2"), Change("b", b"1")))
        assert await anext(watch) == Changes(Revision(6), (Change("a", None),))


@scenario
async def test_a_watch_that_asks_for_what_is_compacted_is_told() -> None:
    gateway = Gateway(stream({"result": {"canceled": True, "compact_revision": "40"}}))
    async with opened(gateway) as store:
        with pytest.raises(MetadataCompactedError) as caught:
            await anext(store.watch("", Revision(4)))
        assert (caught.value.after, caught.value.oldest) == (4, 40)


@pytest.mark.parametrize("url", ["127.0.0.1:7001", "ftp://h:1", "http://h", "http://:7", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected http"):
        Endpoint.parse(url)


def test_addresses_are_shown_as_they_are_sent() -> None:
    assert str(Endpoint.parse("https://[::1]:7001")) == "[::1]:7001"
    assert Endpoint.parse("https://h1:7001").is_tls


@scenario
async def test_sessions_that_nobody_keeps_alive_are_not_counted_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that is fenced again and again opens one each time."""
    clock = ManualClock()
    store = EtcdMetadataStore([f"http://{HOST}:1"], clock=clock)

    async def granted(*_: object) -> None:
        return None

    monkeypatch.setattr(store._client, "ask", granted)
    monkeypatch.setattr("goqueue.cluster.etcd.store.MAX_METADATA_SESSIONS", 2)
    for _ in range(5):
        await store.open_session(2000)
        clock.advance(2001)
    await store.open_session(2000)
    await store.open_session(2000)
    with pytest.raises(InvalidMetadataRequestError):
        await store.open_session(2000)
    await store.close()


class SlowGateway(Gateway):
    """A member that answers late, and counts how many requests it has at a time."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(answer({"header": {"revision": "1"}}))
        self.delay_s = delay_s
        self.at_once = self.most_at_once = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(self.delay_s)
            await super().serve(reader, writer)
        finally:
            self.at_once -= 1
            writer.close()


@scenario
async def test_a_store_that_answers_late_is_waited_for_and_asked_less() -> None:
    """Given up and asked again by everybody all the time, it would never become faster."""
    members = [SlowGateway(0.5) for _ in range(3)]
    async with opened(*members, timing=Timing(attempt_s=0.1, call_s=5.0, pause_s=0.001)) as store:
        found = await asyncio.gather(*(store.get(f"k{number}") for number in range(12)))
        assert found == [None] * 12
        for member in members:
            member.most_at_once = 0
            member.delay_s = 0.0
        await store.get("k")
        assert max(each.most_at_once for each in members) <= 1
        await asyncio.gather(*(store.get("k") for _ in range(4)))
        assert store._client._attempt_s == 0.1


@scenario
async def test_one_member_that_does_not_answer_makes_nobody_wait_longer() -> None:
    paused, well = Gateway(None), SlowGateway(0.0)
    async with opened(paused, well, timing=Timing(attempt_s=0.1, call_s=5.0)) as store:
        await asyncio.gather(*(store.get(f"k{number}") for number in range(12)))
        assert store._client._attempt_s == 0.1
