"""A node that asks everyone who they are, inside a thread of the test, with clients of every kind.

    server.token("producer")      the API key of a client with the role `producer`
    server.login("consumer")      user and password of one with the role `consumer`

Beside the roles there are keys that are no good: `expired`, `revoked` and `wrong`.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.access.api_keys import ApiKey, hash_of, new_key, shown_part
from goqueue.access.directory import Binding
from goqueue.access.keys import Mechanism, keys_from_password
from goqueue.model.pipeline_reports import PipelineFields, QueryReport
from goqueue.transactions.messages import Identity, InitRequest
from support.server import running_node

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.server.node import Node

T = TypeVar("T")

ROLES = ("producer", "consumer", "readonly", "admin")
BAD = ("expired", "revoked", "wrong")
ROOT_KEY = "gq_" + "0" * 64
TOPIC = "orders"
GROUP = "billing"
ID = "order-import"


class GuardedServer:
    """See the module."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self._loop = loop
        self.keys: dict[str, tuple[str, str]] = {}
        """The id and the key of each client."""
        self.passwords: dict[str, str] = {}
        self.producer: Identity
        """Of the transactional id `ID`."""

    @property
    def broker(self) -> Broker:
        return self.node.broker

    @property
    def kafka_port(self) -> int:
        return self.node.kafka.port

    @property
    def http_port(self) -> int:
        return self.node.http.port

    @property
    def grpc_port(self) -> int:
        return self.node.grpc.port

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
        for name in (*ROLES, *BAD):
            key_id, key = new_key()
            self.keys[name] = key_id, key
            if name == "wrong":
                continue
            roles = (name,) if name in ROLES else ("admin",)
            stored = ApiKey(
                hash_of(key),
                shown_part(key),
                name,
                now_ms,
                roles,
                expires_ms=now_ms - 1 if name == "expired" else None,
                is_revoked=name == "revoked",
            )
            await access.keys.change({key_id: stored})
        for role in ROLES:
            password = secrets.token_hex(8)
            self.passwords[role] = password
            keys = {
                mechanism: keys_from_password(mechanism, password, secrets.token_bytes(16))
                for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
            }
            await self.broker.users.alter(role, keys)
            await access.bindings.change({role: Binding((role,))})
        await self.broker.create_topic(TOPIC, 2)
        init = InitRequest(transactional_id=ID, timeout_ms=60_000)
        self.producer = await self.broker.transactions.init_producer(init)
        report = PipelineFields(state="running", queries=(QueryReport(name="q", sources=(TOPIC,)),))
        await self.broker.pipelines.put("revenue", report)

    def fingerprint(self) -> dict[str, Any]:
        """Everything that a refused request could have changed."""
        return self.run(self._fingerprint())

    async def _fingerprint(self) -> dict[str, Any]:
        broker = self.broker
        topics = broker.topics.catalogue.by_name.values()
        return {
            "topics": {
                topic.name: (topic.partition_count, dict(topic.settings.overrides))
                for topic in topics
            },
            "ends": {
                (each.id.topic, each.id.partition): (each.log_start, each.log_end)
                for each in broker.partitions
                if not each.id.topic.startswith("__")
            },
            "groups": [
                (each.group_id, each.state, each.member_count) for each in broker.group_views.all()
            ],
            "transactions": [
                (each.transactional_id, each.state, each.producer_id, each.epoch)
                for each in broker.transactions.list()
            ],
            "schemas": broker.schemas.registry.generation,
            "pipelines": [each.name for each in broker.pipelines.all()],
            "redrives": len(list(broker.redrives)),
            "users": [each.name for each in broker.users.all()],
            "keys": dict(broker.access.keys.all),
            "rules": dict(broker.access.rules.all),
        }


@contextmanager
def guarded_server(data_dir: Path, *flags: str) -> Iterator[GuardedServer]:
    """Start one."""
    ready: Future[GuardedServer] = Future()
    stop = asyncio.Event()

    async def serve() -> None:
        environment = {"GOQUEUE_AUTH_ENABLED": "true", "GOQUEUE_API_ROOT_KEY": ROOT_KEY}
        settings = ("--auth-max-login-delay", "0s", "--webhooks-enabled", "--tenancy-enabled")
        async with running_node(data_dir, *settings, *flags, environment=environment) as node:
            server = GuardedServer(node, asyncio.get_running_loop())
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
        yield server
    finally:
        server._loop.call_soon_threadsafe(stop.set)
        thread.join(60)
