"""Pings between nodes, in a thread of their own: a busy event loop is not a dead node.

Every tenth of a second a datagram goes to every other node: who sends it, in which incarnation,
what its wall clock says, how long its event loop has not come round, and whom it suspects. A keyed
hash over it keeps strangers out. The port is that of the internal listener.

Each node is sent to from a socket that is connected to it, because the system then reports that
nothing listens there any more, at once and not after a silence.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import math
import select
import socket
import threading
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cluster.suspicion import PING_S, Ping, Suspicion
from goqueue.cluster.view_facts import SKEW_MS
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set as AbstractSet

    from goqueue.cluster.records import NodeAddress
    from goqueue.cluster.view import ClusterView
    from goqueue.metrics.registry import Histogram
    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)

_SEAL_BYTES: Final = 16
_MOST_BYTES: Final = 2048
"""A longer datagram is none of ours."""
_BEAT_S: Final = 0.1
"""How often the event loop notes that it has come round."""
_SKEW_LASTS_S: Final = 2.0
"""For so long they have to: after a pause of this node old pings wait to be read."""
_SKEW_AGAIN_S: Final = 60.0
_MISSED_S: Final = 0.3
"""A node that was not heard for so long misses a ping with every further tick."""


class _Echo(msgspec.Struct, array_like=True, frozen=True):
    """The last ping of a node that the sender has: the node measures the round trip by it."""

    node: int
    sent_us: int
    """What that node's monotonic clock said in it."""
    held_us: int
    """How long the sender has had it."""


class _Body(msgspec.Struct, array_like=True, frozen=True):
    node: int
    incarnation: int
    sequence: int
    wall_ms: int
    lag_ms: int
    suspects: tuple[int, ...] = ()
    sent_us: int = 0
    """The sender's monotonic clock."""
    echoes: tuple[_Echo, ...] = ()


class _Heard(NamedTuple):
    """The last ping of another node: what its clock said, and when it came by this one's."""

    sent_us: int
    heard_s: float


class Pings:
    """The thread, and what it knows. What others call may be called from the event loop."""

    def __init__(
        self, node_id: int, secret: bytes, address: tuple[str, int], *, clock: Clock
    ) -> None:
        """Listen on `address`; `secret` is the cluster's."""
        self.node_id = node_id
        self.incarnation = 0
        self.address = address
        self._key = hashlib.sha256(b"pings" + secret).digest()
        self._clock = clock
        self._core = Suspicion(node_id, clock.monotonic_s())
        self._lock = threading.Lock()
        """Around the core, which both threads use."""
        self._peers: Mapping[int, NodeAddress] = {}
        self._registered: AbstractSet[int] = frozenset()
        self._senders: dict[int, tuple[NodeAddress, socket.socket]] = {}
        self._skews: dict[int, int] = {}
        self._skewed_since_s: dict[int, float] = {}
        self._told_skews: dict[int, float] = {}
        self._heard: dict[int, _Heard] = {}
        """As many as there are nodes; of the thread alone."""
        self.latencies: dict[int, Histogram] = {}
        """Where round trips are noted, by node; set in the event loop, and noted in the thread."""
        self.received_count = 0
        self.missed_count = 0
        self.detection_count = 0
        """Pings that came, pings that were due and did not, and how often a node was suspected
        anew; counted in the thread."""
        self._beat_s = clock.monotonic_s()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._on_suspicion: Callable[[], None] = lambda: None
        self._listener: socket.socket | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # --- For the event loop ----------------------------------------------------------------------

    def start(self, on_suspicion: Callable[[], None]) -> None:
        """Listen, ping, and call back in this loop whenever other nodes are suspected.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._listener = _bound(self.address)
        self._on_suspicion = on_suspicion
        self._loop = asyncio.get_running_loop()
        self._beat()
        self._thread = threading.Thread(target=self._run, name="pings", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Send and hear no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        if self._listener is not None:
            self._listener.close()

    def watch(self, view: ClusterView) -> None:
        """Ping the nodes that are registered, and expect theirs; also when a session has lapsed."""
        known = {**view.lapsed, **view.nodes}
        known.pop(self.node_id, None)
        with self._lock:
            self._core.watch(view, self._clock.monotonic_s())
            self._peers = {node_id: node.record.internal for node_id, node in known.items()}
            self._registered = known.keys() & view.nodes.keys()

    def suspects(self) -> frozenset[int]:
        """The nodes that this one does not hear."""
        with self._lock:
            return self._core.suspects(self._clock.monotonic_s())

    def agreed(self) -> frozenset[int]:
        """Those of whom another node says the same, or no other is left to say anything."""
        with self._lock:
            return self._core.agreed(self._clock.monotonic_s())

    def lapsed(self) -> frozenset[int]:
        """Those that are heard although their sessions have lapsed."""
        with self._lock:
            return self._core.lapsed(self._clock.monotonic_s())

    def may_take(self, view: ClusterView) -> bool:
        """Whether this node should try to become the controller."""
        with self._lock:
            return self._core.may_take(view, self._clock.monotonic_s())

    def skews_ms(self) -> dict[int, int]:
        """By how much the wall clocks of other nodes are ahead of this one's."""
        with self._lock:
            return dict(self._skews)

    def _beat(self) -> None:
        self._beat_s = self._clock.monotonic_s()
        if self._loop is not None:
            self._timer = self._loop.call_later(_BEAT_S, self._beat)

    # --- In the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        before: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        next_s = self._clock.monotonic_s()
        while not self._stopping.is_set():
            now_s = self._clock.monotonic_s()
            if now_s >= next_s:
                next_s = now_s + PING_S
                self._send(now_s)
            self._receive(max(next_s - self._clock.monotonic_s(), 0.0))
            with self._lock:
                now_s = self._clock.monotonic_s()
                found = self._core.suspects(now_s), self._core.agreed(now_s)
            if found != before:
                self.detection_count += len(found[0] - before[0])
                before = found
                self._tell()
        for _, sender in self._senders.values():
            sender.close()

    def _tell(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_suspicion)

    def _send(self, now_s: float) -> None:
        lag_ms = int(max(now_s - self._beat_s - _BEAT_S, 0.0) * 1000)
        with self._lock:
            self._core.tick(now_s)
            ping = self._core.ping(
                now_s, incarnation=self.incarnation, wall_ms=self._clock.now_ms(), lag_ms=lag_ms
            )
            peers = self._peers
        self._connect(peers)
        self._count_missed(now_s)
        data = self._sealed(ping, now_s)
        for node_id, (_, sender) in self._senders.items():
            try:
                sender.send(data)
            except ConnectionRefusedError:
                self._refused(node_id)
            except OSError as error:
                logger.debug("no ping to node %d: %s", node_id, error)

    def _connect(self, peers: Mapping[int, NodeAddress]) -> None:
        for node_id in [each for each in self._senders if each not in peers]:
            self._senders.pop(node_id)[1].close()
        for node_id, where in peers.items():
            known = self._senders.get(node_id)
            if known is not None:
                if known[0] == where:
                    continue
                known[1].close()
            try:
                self._senders[node_id] = where, _connected(where)
            except OSError as error:
                self._senders.pop(node_id, None)
                logger.debug("node %d at %s cannot be pinged: %s", node_id, where, error)

    def _receive(self, timeout_s: float) -> None:
        """Take in what comes, until nothing does for a moment or the next ping is due."""
        listener = self._listener
        if listener is None:
            return
        senders = {sender.fileno(): node_id for node_id, (_, sender) in self._senders.items()}
        poll = select.poll()  # unlike `select`, at home with more than 1024 open files
        for descriptor in (listener.fileno(), *senders):
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(math.ceil(timeout_s * 1000)):
            if descriptor in senders:
                self._take_error(senders[descriptor])
            else:
                self._take(listener)

    def _take(self, listener: socket.socket) -> None:
        try:
            data = listener.recv(_MOST_BYTES)
        except OSError:  # an interrupted call, or an error of another node's datagram
            return
        opened = self._opened(data)
        if opened is None:
            return
        ping, body = opened
        now_s = self._clock.monotonic_s()
        self._measure(body, now_s)
        skew_ms = ping.wall_ms - self._clock.now_ms()
        with self._lock:
            self._core.heard(ping, now_s)
            if ping.node in self._peers:
                self._skews[ping.node] = skew_ms
        if abs(skew_ms) <= SKEW_MS:
            self._skewed_since_s.pop(ping.node, None)
        elif now_s - self._skewed_since_s.setdefault(ping.node, now_s) > _SKEW_LASTS_S:
            self._tell_skew(ping.node, skew_ms, now_s)

    def _measure(self, body: _Body, now_s: float) -> None:
        """Note that a node was heard, and how long the ping that it answers and its own took."""
        self.received_count += 1
        self._heard[body.node] = _Heard(body.sent_us, now_s)
        latency = self.latencies.get(body.node)
        for echo in body.echoes:
            if echo.node == self.node_id and latency is not None:
                latency.observe(max(now_s - (echo.sent_us + echo.held_us) / 1e6, 0.0))

    def _count_missed(self, now_s: float) -> None:
        for node_id in [each for each in self._heard if each not in self._registered]:
            del self._heard[node_id]
        self.missed_count += sum(now_s - each.heard_s > _MISSED_S for each in self._heard.values())

    def _take_error(self, node_id: int) -> None:
        try:
            self._senders[node_id][1].recv(_MOST_BYTES)
        except ConnectionRefusedError:
            self._refused(node_id)
        except OSError:
            return

    def _refused(self, node_id: int) -> None:
        with self._lock:
            self._core.refused(node_id)

    def _tell_skew(self, node_id: int, skew_ms: int, now_s: float) -> None:
        if now_s - self._told_skews.get(node_id, -_SKEW_AGAIN_S) < _SKEW_AGAIN_S:
            return
        self._told_skews[node_id] = now_s
        logger.warning(
            "the clock of node %d is %d ms %s this one's: synchronise the clocks of all nodes",
            node_id,
            abs(skew_ms),
            "ahead of" if skew_ms > 0 else "behind",
        )

    # --- Datagrams -------------------------------------------------------------------------------

    def _sealed(self, ping: Ping, now_s: float) -> bytes:
        echoes = tuple(
            _Echo(node_id, heard.sent_us, int((now_s - heard.heard_s) * 1e6))
            for node_id, heard in self._heard.items()
        )
        suspects = tuple(sorted(ping.suspects))
        body = msgspec.msgpack.encode(_Body(*ping[:-1], suspects, int(now_s * 1e6), echoes))
        return hmac.digest(self._key, body, "sha256")[:_SEAL_BYTES] + body

    def _opened(self, data: bytes) -> tuple[Ping, _Body] | None:
        seal, body = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, hmac.digest(self._key, body, "sha256")[:_SEAL_BYTES]):
            return None
        try:
            told = msgspec.msgpack.decode(body, type=_Body)
        except msgspec.MsgspecError:
            return None
        ping = Ping(
            told.node,
            told.incarnation,
            told.sequence,
            told.wall_ms,
            told.lag_ms,
            frozenset(told.suspects),
        )
        return ping, told


def _bound(address: tuple[str, int]) -> socket.socket:
    (family, kind, protocol, _, where), *_ = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.settimeout(0)
        listener.bind(where)
    except OSError:
        listener.close()
        raise
    return listener


def _connected(address: NodeAddress) -> socket.socket:
    (family, kind, protocol, _, where), *_ = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_DGRAM
    )
    sender = socket.socket(family, kind, protocol)
    try:
        sender.settimeout(0)
        sender.connect(where)
    except OSError:
        sender.close()
        raise
    return sender
