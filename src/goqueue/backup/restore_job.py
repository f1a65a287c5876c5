"""A restore under way: checked first, then topics, data, metadata, state, and open transactions.

Until everything is there the topics take no messages. What fails before that removes the topics
again; what is killed leaves them marked, and the next restore of the same topics begins anew.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID, uuid4

from goqueue.backup.metadata_keys import decode_keys, restore_keys
from goqueue.backup.planning import free_id, plan_restore
from goqueue.backup.repository import Repository
from goqueue.backup.verifying import problems_of
from goqueue.model.errors import (
    BackupError,
    BackupUnavailableError,
    DamagedBackupError,
    GoQueueError,
    RestoreConflictError,
)
from goqueue.topics.stored_topic import DELETED

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.backup.jobs import Job
    from goqueue.backup.manifest import Manifest, TopicCopy
    from goqueue.backup.nodes import Nodes
    from goqueue.backup.planning import RestorePlan, RestoreRequest
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.topics.catalogue import Topics

_log = logging.getLogger(__name__)

_LED_TRIES: Final = 60
_AGAIN_S: Final = 0.5
"""How often, and how far apart, it is looked whether every partition has found its leader."""


class RestoringServices(Protocol):
    """What a restore needs of a broker, besides its nodes."""

    store: MetadataStore
    topics: Topics
    topic_changes: TopicChanges
    data_dir: Path

    async def reload_settings(self) -> None:
        """Follow what is in the metadata store now."""


class RestoreJob:
    """One restore."""

    def __init__(
        self, services: RestoringServices, nodes: Nodes, job: Job, request: RestoreRequest
    ) -> None:
        self._services = services
        self._nodes = nodes
        self._job = job
        self._request = request
        self._ids = nodes.all()
        self._repository: Repository
        self._manifest: Manifest
        self._made: list[str] = []

    async def run(self) -> None:
        """Restore, or only tell what would be restored.

        Raises:
            GoQueueError: nothing was restored, or it was removed again.
        """
        request, job = self._request, self._job
        open_it = partial(
            Repository.open, request.destination, self._services.data_dir, request.secret
        )
        self._repository = await asyncio.to_thread(open_it)
        backup_id = await asyncio.to_thread(self._repository.resolve, request.backup_id)
        self._manifest = await asyncio.to_thread(self._repository.manifest, backup_id)
        plan = plan_restore(request, self._manifest, self._services.topics.catalogue)
        job.result = {"backup": backup_id, **plan.report()}
        await self._check(plan)
        if request.dry_run:
            return
        try:
            await self._restore(plan)
        except BaseException:
            await asyncio.shield(self._remove())
            raise
        finally:
            await asyncio.shield(self._release())

    async def _check(self, plan: RestorePlan) -> None:
        """Read everything once: nothing is restored of a backup of which something is missing."""
        files = plan.files(self._manifest)
        self._job.begin("verifying", sum(each.size_bytes for each in files))
        check = partial(
            problems_of, self._repository, files, partial(setattr, self._job, "done_bytes")
        )
        problems = await asyncio.to_thread(check)
        if problems:
            raise DamagedBackupError(
                f"{len(problems)} of {len(files)} files are damaged or missing, and nothing was "
                f"restored: {problems[0]}"
            )
        if plan.with_state:
            answers = await self._nodes.ask_all(self._ids, self._job.id, "check")
            used = [name for each in answers for name in each["used"]]
            if used:
                raise RestoreConflictError(
                    f"{used[0]} has delayed messages already: restore everything into an empty "
                    "broker, or only data with --data-only"
                )

    # --- Restoring -------------------------------------------------------------------------------

    async def _restore(self, plan: RestorePlan) -> None:
        for name in plan.replaced:
            await self._services.topic_changes.delete(name)
        await self._make(plan)
        self._job.begin("restoring", plan.log_bytes)
        await self._restore_data(plan)
        kept: list[str] = []
        if plan.with_state:
            kept = await self._restore_state(plan)
        for name in plan.topics:
            await self._services.topic_changes.restored(name)
        self._made.clear()
        self._job.begin("settling", 0)
        await self._work("settle", topics=list(plan.topics))
        self._job.result["kept_keys"] = kept

    async def _make(self, plan: RestorePlan) -> None:
        changes, catalogue = self._services.topic_changes, self._services.topics.catalogue
        for name, copy in plan.topics.items():
            topic_id = free_id(copy, name, catalogue)
            if topic_id is not None and await self._is_going(topic_id):
                topic_id = None
            if topic_id is None and plan.with_state:
                raise RestoreConflictError(
                    f"the id of topic {name!r} is still in use: its files are being removed; try "
                    "again in a moment"
                )
            self._made.append(name)
            try:
                await changes.restore(
                    name, len(copy.partitions), copy.overrides, topic_id or uuid4()
                )
            except GoQueueError:
                self._made.remove(name)
                raise
        for copy in plan.state:
            if any(each.parts for each in copy.partitions):
                await changes.create_internal(copy.name, len(copy.partitions))

    async def _is_going(self, topic_id: UUID) -> bool:
        """Whether the files of a deleted topic with this id are still being removed."""
        return await self._services.store.get(DELETED + topic_id.hex) is not None

    async def _restore_data(self, plan: RestorePlan) -> None:
        """Let every leader restore its partitions; new ones may take a moment to have one."""
        wanted = {(name, number) for name, copy in plan.topics.items() for number in _numbers(copy)}
        topics = {name: copy.name for name, copy in plan.topics.items()}
        for _ in range(_LED_TRIES):
            answers = await self._work("data", topics=topics, until_ms=self._request.until_ms)
            done = _places(answers, "restored")
            if wanted <= done:
                return
            await asyncio.sleep(_AGAIN_S)
        topic, number = min(wanted - done)
        raise BackupUnavailableError(f"{topic}-{number} has no leader: start the missing nodes")

    async def _restore_state(self, plan: RestorePlan) -> list[str]:
        kept: list[str] = []
        metadata = self._manifest.metadata
        if metadata is not None:
            keys = decode_keys(await asyncio.to_thread(self._repository.read, metadata))
            kept = await restore_keys(self._services.store, keys)
            await self._services.reload_settings()
        if plan.state:
            await self._restore_shards()
        return kept

    async def _restore_shards(self) -> None:
        """Let every leader restore its shards; those of new topics may take a moment to open."""
        for _ in range(_LED_TRIES):
            answers = await self._work("state")
            missing = _places(answers, "wanted_shards") - _places(answers, "restored_shards")
            if not missing:
                return
            await asyncio.sleep(_AGAIN_S)
        topic, number = min(missing)
        raise BackupUnavailableError(
            f"the state in {topic}-{number} was not restored, no node leads it: start the missing "
            "nodes, and restore into an empty broker"
        )

    async def _work(self, action: str, **asked: Any) -> list[dict[str, Any]]:
        key = self._repository.key
        return await self._nodes.work(
            self._ids,
            self._job.id,
            action,
            on_progress=partial(setattr, self._job, "done_bytes"),
            destination=self._request.destination,
            key=None if key is None else key.hex(),
            backup=self._manifest.id,
            rate_bytes=self._request.rate_bytes,
            **asked,
        )

    # --- Ending ----------------------------------------------------------------------------------

    async def _remove(self) -> None:
        """Leave nothing half restored."""
        for name in self._made:
            try:
                await self._services.topic_changes.delete(name)
            except GoQueueError as error:
                _log.warning("%s stays, half restored and closed to writers: %s", name, error)

    async def _release(self) -> None:
        for each in self._ids:
            try:
                await self._nodes.ask(each, self._job.id, "release")
            except BackupError:
                continue  # it lets go by itself


def _places(answers: list[dict[str, Any]], field: str) -> set[tuple[str, int]]:
    return {(topic, number) for each in answers for topic, number in each[field]}


def _numbers(copy: TopicCopy) -> list[int]:
    return [each.number for each in copy.partitions]
