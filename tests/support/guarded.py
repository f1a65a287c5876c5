"""A node that asks everyone who they are, inside a thread of the test, with clients of every kind.

With GOQUEUE_TEST_CLUSTER=3 these are three, and each port that is asked for is that of the next.

    server.token("producer")      the API key of a client with the role `producer`
    server.login("consumer")      user and password of one with the role `consumer`

Beside the roles there is a client without any, `stranger`, and the administrator of a tenant,
`other`. Of another tenant there is one thing of every kind (`server.hidden`), of which neither may
learn anything; everything that people have named there has SECRET in its name. `server.absent` has
such names, too, and there is nothing of it. Keys that are no good are `expired`, `revoked` and
`wrong`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import urllib.error
import urllib.request
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from msgspec import structs

from goqueue.access.api_keys import ApiKey, hash_of, new_key, shown_part
from goqueue.access.directory import Binding
from goqueue.access.keys import Mechanism, keys_from_password
from goqueue.transactions.messages import Identity
from support.guarded_state import TENANT, kept_by, known_everywhere
from support.nodes_in_loop import CLUSTER, running_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from pathlib import Path

    from goqueue.access.rules import Rule
    from goqueue.access.stored import StoredRecords
    from goqueue.broker.broker import Broker
    from support.nodes_in_loop import Nodes

T = TypeVar("T")

ABSENT = "absent"
NOBODY = Identity(0, 0)
NO_TOPIC = UUID(int=0)
NO_QUOTAS = {"publish_messages_per_s": 0, "consume_messages_per_s": 0, "requests_per_s": 0}

ROLES = ("producer", "consumer", "readonly", "admin")
OUTSIDERS = ("stranger", "other")
BAD = ("expired", "revoked", "wrong")
SECRET = "clandestine"
ROOT_KEY = "gq_" + "0" * 64
TOPIC = "orders"
GROUP = "billing"
ID = "order-import"


@dataclass(frozen=True)
class Things:
    """What requests are about, by name and by number."""

    topic: str = TOPIC
    group: str = GROUP
    transactional_id: str = ID
    producer: Identity = NOBODY
    topic_id: UUID = NO_TOPIC
    pipeline: str = "revenue"
    tenant: str = "1"
    webhook: str = "1"
    schema: int = 1
    guid: str = "89791762-2336-4186-9674-299b90a802e2"
    redrive: int = 1
    trace: str = "0" * 32
    delayed: int = 0

    @property
    def receipt(self) -> str:
        return f"{self.topic}:0:0:1:{'0' * 16}"


class GuardedServer:
    """See the module."""

    def __init__(self, nodes: Nodes, loop: asyncio.AbstractEventLoop) -> None:
        self.nodes = nodes
        self._loop = loop
        self.keys: dict[str, tuple[str, str]] = {}
        """The id and the key of each client."""
        self.passwords: dict[str, str] = {}
        self.known = Things()
        """What there is for everybody who has the right."""
        self.hidden = Things()
        self.absent = Things()

    @property
    def broker(self) -> Broker:
        """Of the first node."""
        return self.nodes.broker

    @property
    def kafka_port(self) -> int:
        return self.nodes.next().kafka.port

    @property
    def http_port(self) -> int:
        return self.nodes.next().http.port

    @property
    def grpc_port(self) -> int:
        return self.nodes.next().grpc.port

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the node's event loop do something, and wait for it."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(60)

    def token(self, who: str) -> str:
        return self.keys[who][1]

    def login(self, who: str) -> tuple[str, str]:
        return who, self.passwords[who]

    async def prepare(self) -> None:
        """Make a client of each kind, a topic and a group."""
        access, now_ms = self.broker.access, self.broker.clock.now_ms()
        await self.broker.tenants.create(TENANT, "Globex", quotas=NO_QUOTAS)
        for name in (*ROLES, *OUTSIDERS, *BAD):
            key_id, key = new_key()
            self.keys[name] = key_id, key
            if name == "wrong":
                continue
            roles = _roles_of(name)
            stored = ApiKey(
                hash_of(key),
                shown_part(key),
                name,
                now_ms,
                roles,
                _tenant_of(name),
                expires_ms=now_ms - 1 if name == "expired" else None,
                is_revoked=name == "revoked",
            )
            await access.keys.change({key_id: stored})
        for name in (*ROLES, *OUTSIDERS):
            password = secrets.token_hex(8)
            self.passwords[name] = password
            keys = {
                mechanism: keys_from_password(mechanism, password, secrets.token_bytes(16))
                for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
            }
            await self.broker.users.alter(name, keys)
            binding = Binding(_roles_of(name), _tenant_of(name))
            await access.bindings.change({name: binding})
        await self.broker.create_topic(TOPIC, 2)
        await self._agreed()

    def fill(self) -> None:
        """Make what the clients ask for."""
        begun = self.ask("POST", "/producers/init", {"transactional_id": ID})
        self.known = replace(
            self.known,
            producer=Identity(begun["producer_id"], begun["epoch"]),
            topic_id=self.broker.topics.catalogue.topic(TOPIC).topic_id,
        )
        report = {"state": "running", "queries": [{"name": "q", "sources": [TOPIC]}]}
        self.ask("PUT", "/pipelines/revenue", report)

    def change_rules(self, *, add: Iterable[Rule] = (), remove: Iterable[Rule] = ()) -> None:
        """Change them at the first node, and wait until every node knows."""
        changes = {**{each.id: each for each in add}, **{each.id: None for each in remove}}
        self._change(lambda broker: broker.access.rules, changes)

    def change_key(self, key_id: str, **fields: Any) -> None:
        """The same of a key that there is, or of a new one, `stored`."""
        stored = fields.pop("stored", None) or self.broker.access.keys.all[key_id]
        self._change(lambda broker: broker.access.keys, {key_id: structs.replace(stored, **fields)})

    def _change(
        self, records: Callable[[Broker], StoredRecords[Any]], changes: Mapping[str, Any]
    ) -> None:
        self.run(records(self.broker).change(changes))
        self.run(self._agreed())

    async def _agreed(self) -> dict[str, Any]:
        """Wait until every node knows the same; what that is."""
        async with asyncio.timeout(60):
            while True:
                found = [known_everywhere(each.broker) for each in self.nodes.all]
                if all(each == found[0] for each in found):
                    return found[0]
                await asyncio.sleep(0.02)

    def hide(self) -> None:
        """Make something of every kind for another tenant."""
        self.hidden = hidden_things(self)
        self.absent = replace(
            Things(),
            topic=self.hidden.topic.replace(SECRET, ABSENT),
            group=self.hidden.group.replace(SECRET, ABSENT),
            transactional_id=self.hidden.transactional_id.replace(SECRET, ABSENT),
            producer=Identity(10**9, 0),
            topic_id=uuid4(),
            pipeline=self.hidden.pipeline.replace(SECRET, ABSENT),
            tenant=ABSENT,
            webhook="wh_" + "0" * 16,
            schema=10**9,
            redrive=10**9,
            trace=uuid4().hex,
            delayed=10**9,
        )

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What HTTP answers to the root key."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {ROOT_KEY}", "Content-Type": "application/json"},
            method=method,
        )
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or len(self.nodes.all) == 1:
                    raise  # others are told at once, and whoever is elected now serves it soon
                error.close()

    def fingerprint(self) -> dict[str, Any]:
        """Everything that a refused request could have changed, but for what `other` owns."""
        return self.run(self._fingerprint())

    async def _fingerprint(self) -> dict[str, Any]:
        known = await self._agreed()
        kept = [kept_by(each.broker) for each in self.nodes.all]
        ends: dict[tuple[str, int], tuple[int, int]] = {}
        for part in kept:
            for place, found in part.pop("ends").items():
                ends[place] = max(found, ends.get(place, found))
        return {
            **known,
            "ends": ends,
            **{name: sorted({line for part in kept for line in part[name]}) for name in kept[0]},
        }


def _roles_of(name: str) -> tuple[str, ...]:
    if name == "stranger":
        return ()
    return (name,) if name in ROLES else ("admin",)


def _tenant_of(name: str) -> str | None:
    return TENANT if name == "other" else None


def hidden_things(server: GuardedServer) -> Things:
    """One thing of every kind, of a tenant whose clients nobody here is."""
    owner = "acme"
    topic, group, name = f"{owner}.{SECRET}", f"{owner}.{SECRET}-group", f"{owner}.{SECRET}-id"
    server.run(server.broker.tenants.create(owner, SECRET, quotas=NO_QUOTAS))
    server.run(server.broker.create_topic(topic, 1))
    server.run(server._agreed())
    messages = [{"value": f"{SECRET} value"}, {"value": f"{SECRET} letter"}]
    server.ask("POST", f"/topics/{topic}/messages", {"messages": messages})
    late = {"messages": [{"value": f"{SECRET} later", "delay": "1h"}]}
    (delayed,) = server.ask("POST", f"/topics/{topic}/messages", late)["results"]
    fields = [{"name": f"{SECRET}Field", "type": "string"}]
    text = json.dumps({"type": "record", "name": f"{SECRET}Record", "fields": fields})
    made = server.ask("POST", f"/subjects/{topic}-value/versions", {"schema": text})
    join = {"topics": [topic], "start": "earliest"}
    member = server.ask("POST", f"/groups/{group}/join", join)
    who = f"member_id={member['member_id']}&generation={member['generation']}"
    found = server.ask("GET", f"/groups/{group}/poll?{who}&timeout=5s")["messages"]
    rejected = {"receipt_handle": found[1]["receipt_handle"], "group": group, "reason": SECRET}
    server.ask("POST", "/messages/reject", rejected)
    redrive = server.ask("POST", f"/topics/{topic}/dlq/redrive", {"limit": 1})
    begun = server.ask("POST", "/producers/init", {"transactional_id": name})
    producer = Identity(begun["producer_id"], begun["epoch"])
    write = {"producer_id": producer.producer_id, "epoch": producer.epoch}
    server.ask("POST", "/transactions/begin", write)
    server.ask("POST", "/transactions/add-partition", {**write, "topic": topic, "partition": 0})
    pipeline = f"{owner}.{SECRET}-pipeline"
    report = {"state": "running", "queries": [{"name": SECRET, "sources": [topic]}]}
    server.ask("PUT", f"/pipelines/{pipeline}", report)
    hook = {"url": f"https://{SECRET}.example.org/", "topics": [topic], "enabled": False}
    traces = server.ask("GET", f"/traces/search?topic={topic}")["traces"]
    return Things(
        topic,
        group,
        name,
        producer,
        server.broker.topics.catalogue.topic(topic).topic_id,
        pipeline,
        owner,
        server.ask("POST", "/admin/webhooks", hook)["id"],
        made["id"],
        made["guid"],
        redrive["id"],
        traces[0]["trace_id"],
        delayed["offset"],
    )


@contextmanager
def guarded_server(
    data_dir: Path, *flags: str, hides: bool = False, is_cluster: bool = CLUSTER
) -> Iterator[GuardedServer]:
    """Start one, or three; with `hides` there is something of another tenant."""
    ready: Future[GuardedServer] = Future()
    stop = asyncio.Event()

    async def serve() -> None:
        environment = {"GOQUEUE_AUTH_ENABLED": "true", "GOQUEUE_API_ROOT_KEY": ROOT_KEY}
        settings = ("--auth-max-login-delay", "0s", "--webhooks-enabled", "--tenancy-enabled")
        async with running_nodes(
            data_dir, *settings, *flags, environment=environment, is_cluster=is_cluster
        ) as nodes:
            server = GuardedServer(nodes, asyncio.get_running_loop())
            await server.prepare()
            ready.set_result(server)
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    server = ready.result(60)
    try:
        server.fill()
        if hides:
            server.hide()
        yield server
    finally:
        server._loop.call_soon_threadsafe(stop.set)
        thread.join(60)
