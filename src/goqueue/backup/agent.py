"""What each node does for a backup or a restore: its own partitions, when the job asks for it.

The job runs on one node. It asks every node, its own included, by the same few actions, whose
arguments and answers are plain values, so that they go between nodes as they are.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from goqueue.backup.capture import Capture, Stage
from goqueue.backup.copying import Copier, CopyProgress
from goqueue.backup.manifest import PartitionCopy
from goqueue.backup.repository import Repository, Secret
from goqueue.backup.restoring import NodeRestore, RestoreServices
from goqueue.backup.reuse import KnownParts
from goqueue.model.errors import BackupError, UnknownBackupError
from goqueue.model.internal_topics import DELAYED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from goqueue.backup.manifest import TopicCopy
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.runtime.clock import Clock

HOLD_S: Final = 10.0
"""How long commits of transactions wait at most, should the node that asked for it be gone."""
_IDLE_S: Final = 3600.0
"""After so long without a question, the node lets go of what it holds for a job."""


class AgentServices(RestoreServices, Protocol):
    """What a node needs for its part."""

    clock: Clock
    data_dir: Path


class Fragment(msgspec.Struct, frozen=True):
    """A partition that one node has copied."""

    topic: str
    topic_id: str
    copy: PartitionCopy


FRAGMENTS: Final = msgspec.json.Decoder(list[Fragment])


def fragment_name(backup_id: str, node: str) -> str:
    """The file in which a node leaves what it has copied, for the node that runs the job."""
    return f"backups/{backup_id}/node-{node}"


class _Part:
    """What this node holds for one job."""

    def __init__(self, progress: CopyProgress) -> None:
        self.progress = progress
        self.capture: Capture | None = None
        self.restore: NodeRestore | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.is_held = False


class NodeAgent:
    """Answers the node that runs a job."""

    def __init__(self, services: AgentServices, node: str) -> None:
        self._services = services
        self._node = node
        self._parts: dict[str, _Part] = {}
        self._actions: dict[str, Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "check": self._check,
            "hold": self._hold,
            "capture": self._capture,
            "copy": self._copy,
            "data": self._data,
            "state": self._state,
            "settle": self._settle,
            "progress": self._progress,
            "release": self._release,
        }

    async def handle(self, token: str, action: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Do one thing for a job.

        Raises:
            GoQueueError: it cannot be done.
        """
        found = self._actions.get(action)
        if found is None:
            raise BackupError(f"this node knows no action {action!r}: upgrade it")
        return await found(token, asked)

    async def stop(self) -> None:
        """Let go of everything."""
        for token in list(self._parts):
            await self._release(token, {})

    def _part(self, token: str, rate_bytes: int | None = None) -> _Part:
        part = self._parts.get(token)
        if part is None:
            clock = self._services.clock
            part = self._parts[token] = _Part(CopyProgress(rate_bytes, clock.monotonic_s))
        if part.timer is not None:
            part.timer.cancel()
        part.timer = asyncio.get_running_loop().call_later(_IDLE_S, self._let_go, token)
        return part

    def _let_go(self, token: str) -> None:
        part = self._parts.pop(token, None)
        if part is None:
            return
        part.progress.cancel()
        if part.timer is not None:
            part.timer.cancel()
        if part.task is not None:
            part.task.cancel()
        if part.is_held:
            self._services.transactions.commit_hold.end()

    # --- Making a backup -------------------------------------------------------------------------

    async def _hold(self, token: str, _asked: dict[str, Any]) -> dict[str, Any]:
        """Let no transaction be committed from now on until the moment is over."""
        part = self._part(token)
        part.is_held = True
        await self._services.transactions.hold_commits(HOLD_S)
        return {}

    async def _capture(self, token: str, asked: dict[str, Any]) -> dict[str, Any]:
        part, services = self._part(token), self._services
        is_held = services.transactions.commit_hold.is_on
        if part.capture is None or asked.get("anew"):
            part.capture = Capture(services.topics, services.partitions)
        stages = {Stage(each) for each in asked["stages"]}
        size = part.capture.take(stages, asked["names"])
        if asked.get("releases") and part.is_held:
            part.is_held = False
            services.transactions.commit_hold.end()
        return {"bytes": size, "is_held": is_held}

    async def _copy(self, token: str, asked: dict[str, Any]) -> dict[str, Any]:
        part = self._part(token)
        part.progress = CopyProgress(asked["rate_bytes"], self._services.clock.monotonic_s)
        part.task = asyncio.create_task(self._copy_all(token, part, asked))
        return {}

    async def _copy_all(self, token: str, part: _Part, asked: dict[str, Any]) -> None:
        capture = part.capture
        if capture is None:
            raise BackupError("there is nothing captured to be copied: begin again")
        repository = await self._repository(asked)
        known = await asyncio.to_thread(_known, repository, asked)
        copier = Copier(repository, token, self._node, known, part.progress)
        try:
            done = await asyncio.shield(
                copying := asyncio.ensure_future(asyncio.to_thread(copier.run, capture.taken))
            )
        except asyncio.CancelledError:
            part.progress.cancel()
            await asyncio.wait((copying,))
            raise
        found = [Fragment(each.topic.name, each.topic.topic_id.hex, copy) for each, copy in done]
        data = msgspec.json.encode(found)
        await asyncio.to_thread(repository.write, fragment_name(token, self._node), [data])
        part.capture = None

    async def _repository(self, asked: dict[str, Any]) -> Repository:
        secret = Secret(key=asked["key"])
        open_it = partial(Repository.open, asked["destination"], self._services.data_dir, secret)
        return await asyncio.to_thread(open_it)

    # --- Restoring -------------------------------------------------------------------------------

    async def _check(self, _token: str, _asked: dict[str, Any]) -> dict[str, Any]:
        """What is in the way of the state of coordinators on this node."""
        topic = self._services.topics.catalogue.by_name.get(DELAYED)
        used = [
            str(each.id)
            for each in (() if topic is None else self._services.partitions.local_of(topic))
            if each.is_leading and each.log_end
        ]
        return {"used": used}

    async def _data(self, token: str, asked: dict[str, Any]) -> dict[str, Any]:
        part, restore, copies = await self._begun(token, asked)
        topics = {name: copies[source] for name, source in asked["topics"].items()}
        work = restore.data(topics, asked["until_ms"], part.progress)
        part.task = asyncio.ensure_future(work)
        return {}

    async def _state(self, token: str, asked: dict[str, Any]) -> dict[str, Any]:
        part, restore, copies = await self._begun(token, asked)
        restore.forget_ids()
        internal = [each for each in copies.values() if each.is_internal]
        part.task = asyncio.ensure_future(restore.state.run(internal, part.progress))
        return {}

    async def _settle(self, token: str, asked: dict[str, Any]) -> dict[str, Any]:
        part, restore, _ = await self._begun(token, asked)

        async def settle() -> None:
            await restore.settle(asked["topics"])

        part.task = asyncio.create_task(settle())
        return {}

    async def _begun(
        self, token: str, asked: dict[str, Any]
    ) -> tuple[_Part, NodeRestore, dict[str, TopicCopy]]:
        part = self._part(token, asked.get("rate_bytes"))
        repository = await self._repository(asked)
        if part.restore is None:
            part.restore = NodeRestore(self._services, repository)
        manifest = await asyncio.to_thread(repository.manifest, asked["backup"])
        return part, part.restore, {each.name: each for each in manifest.topics}

    # --- Both ------------------------------------------------------------------------------------

    async def _progress(self, token: str, _asked: dict[str, Any]) -> dict[str, Any]:
        """How far it is. Raises what the work has raised."""
        part = self._parts.get(token)
        if part is None:
            raise UnknownBackupError(
                f"no backup {token} on this node, which was restarted meanwhile: start it again"
            )
        part = self._part(token)
        is_done = part.task is None or part.task.done()
        if part.task is not None and part.task.done():
            part.task.result()
        answer: dict[str, Any] = {
            "is_done": is_done,
            "done_bytes": part.progress.done_bytes,
            "copied_bytes": part.progress.copied_bytes,
        }
        if part.restore is not None:
            state = part.restore.state
            answer["restored"] = _pairs(part.restore.done)
            answer["wanted_shards"] = _pairs(state.wanted)
            answer["restored_shards"] = _pairs(state.done)
        return answer

    async def _release(self, token: str, _asked: dict[str, Any]) -> dict[str, Any]:
        part = self._parts.get(token)
        self._let_go(token)
        if part is not None and part.task is not None:
            await asyncio.wait((part.task,))
            if not part.task.cancelled():
                part.task.exception()
        return {}


def _pairs(places: Iterable[TopicPartition]) -> list[tuple[str, int]]:
    return [(each.topic, each.partition) for each in sorted(places)]


def _known(repository: Repository, asked: dict[str, Any]) -> KnownParts:
    """What need not be copied: what a backup has, and what unfinished ones have copied."""
    known = KnownParts()
    if asked["since"] is not None:
        known.add_manifest(repository.manifest(asked["since"]))
    if asked["resumes"]:
        known.add_journal(repository.noted())
    return known
