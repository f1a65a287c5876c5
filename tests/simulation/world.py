"""Virtual time, the network, and the model of the metadata store."""

from __future__ import annotations

import heapq
import random
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

from goqueue.cluster.metadata import (
    Change,
    Committed,
    Conflict,
    Delete,
    Entry,
    Put,
    Revision,
    Snapshot,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.cluster.metadata import Condition, Operation, SessionId, TransactionResult

STORE = 0
"""The store as an end of a link."""

STORE_TIMEOUT_S = 0.25
SESSION_S = 2.0


class World:
    """Events in the order of their time; the same seed gives the same run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_s = 0.0
        self.trace: list[str] | None = None
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self._tokens = count(1)
        self.steps = 0

    def token(self) -> str:
        """What tells one write from every other, the same in every run of a seed."""
        return f"t{next(self._tokens)}"

    def at(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call something later."""
        event = (self.now_s + delay_s, next(self._numbers), call, arguments)
        heapq.heappush(self._events, event)

    def run(self, until_s: float, stop: Callable[[], bool] | None = None) -> None:
        """Let things happen until a time, or until `stop` says so (asked ten times a second)."""
        events, asked_s = self._events, self.now_s
        while events and events[0][0] <= until_s:
            self.now_s, _, call, arguments = heapq.heappop(events)
            self.steps += 1
            call(*arguments)
            if stop is not None and self.now_s - asked_s > 0.1:
                asked_s = self.now_s
                if stop():
                    return
        self.now_s = max(self.now_s, until_s)

    def say(self, text: str) -> None:
        """Put a line into the trace, if one is kept."""
        if self.trace is not None:
            self.trace.append(f"{self.now_s:8.3f} {text}")


class Network:
    """Links between nodes, and between nodes and the store, each one way."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.cut: set[tuple[int, int]] = set()
        self.slow: dict[tuple[int, int], float] = {}
        self.loss = 0.0
        """The share of messages that go nowhere."""
        self._newest: dict[tuple[int, int], float] = {}

    def heal(self) -> None:
        """Every link is whole again."""
        self.cut.clear()
        self.slow.clear()
        self.loss = 0.0

    def delay(self, source: int, target: int) -> float | None:
        """How long a message is under way; None when it never arrives."""
        link = (source, target)
        if link in self.cut:
            return None
        rng = self._world.rng
        if self.loss and rng.random() < self.loss:
            return None
        return 0.0003 + rng.random() * 0.001 + self.slow.get(link, 0.0)

    def send(self, source: int, target: int, call: Callable[..., None], *arguments: Any) -> bool:
        """Deliver a message, unordered; returns whether it left."""
        delay_s = self.delay(source, target)
        if delay_s is None:
            return False
        self._world.at(delay_s, call, *arguments)
        return True


class _Watcher:
    """What one node has not been told yet."""

    def __init__(self, tell: Callable[..., None], now_s: float) -> None:
        self.tell = tell
        self.newest_s = now_s
        self.waiting: deque[tuple[Revision, list[Change]]] = deque()


class ModelStore:
    """A linearizable map with watches and sessions; answers may be lost, and requests late."""

    def __init__(self, world: World, network: Network) -> None:
        self._world = world
        self._network = network
        self.entries: dict[str, Entry] = {}
        self.revision = Revision(0)
        self.is_down = False
        self.lost_answers = 0.0
        """The share of transactions whose answer is lost, happened or not."""
        self.next_delay_s = 0.0
        """How much later than others the next transaction happens."""
        self.loses_next_answer = False
        self.watch_lag_s: dict[int, float] = {}
        self._watchers: dict[int, _Watcher] = {}
        self._deadlines: dict[SessionId, float] = {}
        self.on_commit: list[
            Callable[[int, str, list[tuple[str, Entry | None, Entry | None]]], None]
        ]
        self.on_commit = []

    # --- As nodes use it -------------------------------------------------------------------------

    def transact(
        self,
        node_id: int,
        purpose: str,
        conditions: Iterable[Condition],
        operations: Iterable[Operation],
        answer: Callable[[TransactionResult], None],
    ) -> None:
        """Try a transaction from a node; the answer comes later, and is `Unknown` at the latest."""
        world, rng, state = self._world, self._world.rng, {"told": False}

        def tell(result: TransactionResult) -> None:
            if not state["told"]:
                state["told"] = True
                answer(result)

        def apply() -> None:
            if self.is_down:
                return
            result = self.commit(node_id, purpose, conditions, operations)
            back_s = self._network.delay(STORE, node_id)
            if back_s is not None and fate > self.lost_answers / 2 and not is_lost:
                world.at(back_s, tell, result)

        fate, is_lost = rng.random(), self.loses_next_answer
        self.loses_next_answer = False
        there_s = self._network.delay(node_id, STORE)
        if self.lost_answers / 2 < fate <= self.lost_answers:
            there_s = rng.choice((None, rng.random() * 1.5))
        if there_s is not None:
            world.at(there_s + 0.001 + self.next_delay_s, apply)
        self.next_delay_s = 0.0
        world.at(STORE_TIMEOUT_S, tell, Unknown("no answer in time"))

    def read(self, node_id: int, answer: Callable[[Snapshot | None], None]) -> None:
        """Everything, at one revision; None when the store was not reached."""
        there_s = self._network.delay(node_id, STORE)
        back_s = self._network.delay(STORE, node_id)
        if there_s is None or back_s is None:
            self._world.at(STORE_TIMEOUT_S, answer, None)
            return
        back = back_s

        def apply() -> None:
            found = None if self.is_down else self.snapshot()
            self._world.at(back, answer, found)

        self._world.at(there_s, apply)

    def watch(self, node_id: int, tell: Callable[..., None]) -> None:
        """From now on tell every change, in order and late."""
        self._watchers[node_id] = _Watcher(tell, self._world.now_s)

    def unwatch(self, node_id: int) -> None:
        """The node is gone."""
        self._watchers.pop(node_id, None)

    def keep_alive(self, node_id: int, session: SessionId, tell: Callable[[], None]) -> None:
        """Move a session's deadline; `tell` when the store has answered."""

        def apply() -> None:
            if session in self._deadlines and not self.is_down:
                self._deadlines[session] = self._world.now_s + SESSION_S
                self._network.send(STORE, node_id, tell)

        self._network.send(node_id, STORE, apply)

    # --- Inside, and for the oracle --------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Everything as it is."""
        return Snapshot(tuple(self.entries[key] for key in sorted(self.entries)), self.revision)

    def commit(
        self,
        node_id: int,
        purpose: str,
        conditions: Iterable[Condition],
        operations: Iterable[Operation],
    ) -> TransactionResult:
        """Do it here and now, if every condition holds."""
        entries = self.entries
        for condition in conditions:
            entry = entries.get(condition.key)
            if (entry.revision if entry else 0) != condition.revision:
                return Conflict({each.key: entries.get(each.key) for each in conditions})
        self.revision = revision = Revision(self.revision + 1)
        changes, changed = [], []
        for operation in operations:
            key, before = operation.key, entries.get(operation.key)
            if isinstance(operation, Put):
                session = operation.session
                entries[key] = Entry(key, operation.value, revision, session)
                if session is not None and session not in self._deadlines:
                    self._deadlines[session] = self._world.now_s + SESSION_S
                    self._world.at(SESSION_S, self._lapse, session)
                changes.append(Change(key, operation.value))
            elif isinstance(operation, Delete):
                entries.pop(key, None)
                changes.append(Change(key, None))
            changed.append((key, before, entries.get(key)))
        for watcher in self.on_commit:
            watcher(node_id, purpose, changed)
        for each in tuple(self._watchers):
            self._notify(each, revision, changes)
        return Committed(revision)

    def _notify(self, node_id: int, revision: Revision, changes: list[Change]) -> None:
        watcher = self._watchers[node_id]
        watcher.waiting.append((revision, changes))
        now_s = self._world.now_s
        lag_s = self._world.rng.random() * 0.01 + self.watch_lag_s.get(node_id, 0.0)
        watcher.newest_s = max(watcher.newest_s, now_s + lag_s)
        self._world.at(watcher.newest_s - now_s, self._deliver, node_id, watcher)

    def _deliver(self, node_id: int, watcher: _Watcher) -> None:
        """Tell the oldest change that was not told yet."""
        if self._watchers.get(node_id) is not watcher:
            return
        if (STORE, node_id) in self._network.cut or self.is_down:
            self._world.at(0.2, self._deliver, node_id, watcher)
            return
        watcher.tell(*watcher.waiting.popleft())

    def end_session(self, session: SessionId) -> None:
        """The session's keys go away now."""
        self._deadlines.pop(session, None)
        gone = [Delete(key) for key, entry in self.entries.items() if entry.session == session]
        if gone:
            self.commit(STORE, "lapse", (), gone)

    def _lapse(self, session: SessionId) -> None:
        deadline_s = self._deadlines.get(session)
        if deadline_s is None:
            return
        if self.is_down:
            deadline_s = self._deadlines[session] = self._world.now_s + SESSION_S
        if deadline_s <= self._world.now_s:
            self.end_session(session)
        else:
            self._world.at(deadline_s - self._world.now_s + 0.001, self._lapse, session)
