"""Making a backup: one moment on all nodes, then copying, then the manifest."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

import goqueue
from goqueue.backup.agent import FRAGMENTS, fragment_name
from goqueue.backup.capture import LEFT_OUT, Stage, stage_of
from goqueue.backup.manifest import Manifest, TopicCopy
from goqueue.backup.metadata_keys import capture_keys, encode_keys
from goqueue.backup.repository import LATEST, NO_SECRET, Repository, Secret, metadata_name
from goqueue.model.errors import (
    BackupError,
    BackupUnavailableError,
    DamagedBackupError,
    UnknownTopicError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goqueue.backup.jobs import Job
    from goqueue.backup.manifest import PartitionCopy
    from goqueue.backup.nodes import Nodes
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.configs.broker_settings import BrokerSettings
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic, Topics

_MOMENTS: Final = 5
"""How often a moment is tried in a cluster whose leaders move."""
_AGAIN_S: Final = 1.0


class MakingServices(Protocol):
    """What a backup needs of a broker, besides its nodes."""

    settings: BrokerSettings
    store: MetadataStore
    topics: Topics
    clock: Clock
    data_dir: Path


class BackupRequest(msgspec.Struct, frozen=True):
    """What to back up, and where to."""

    destination: str
    topics: tuple[str, ...] | None = None
    """Only the data of these topics; None is everything."""
    since: str | None = LATEST
    """The backup to compare with; None copies everything anew."""
    rate_bytes: int | None = None
    """Bytes a second, on each node."""
    secret: Secret = NO_SECRET


class BackupMaking:
    """One backup under way."""

    def __init__(
        self, services: MakingServices, nodes: Nodes, job: Job, request: BackupRequest
    ) -> None:
        self._services = services
        self._nodes = nodes
        self._job = job
        self._request = request
        self._ids = nodes.all()
        self._captured: dict[str, Topic] = {}

    async def run(self) -> None:
        """Make the backup.

        Raises:
            GoQueueError: it was not made; what was copied serves the next attempt.
        """
        request, job, services = self._request, self._job, self._services
        open_it = partial(
            Repository.open, request.destination, services.data_dir, request.secret, makes=True
        )
        repository = await asyncio.to_thread(open_it)
        repository.check_key()
        since = await asyncio.to_thread(self._since, repository)
        self._check_topics()
        try:
            moment_ms, size = await self._moment()
            keys = await capture_keys(services.store) if request.topics is None else None
            job.begin("copying", size)
            answers = await self._nodes.work(
                self._ids,
                job.id,
                "copy",
                on_progress=partial(setattr, job, "done_bytes"),
                destination=request.destination,
                key=None if repository.key is None else repository.key.hex(),
                since=since,
                resumes=request.since is not None,
                rate_bytes=request.rate_bytes,
            )
            copies = await asyncio.to_thread(self._collected, repository)
            job.begin("finishing", 0)
            finish = partial(
                self._finish,
                repository,
                copies,
                moment_ms=moment_ms,
                since=since,
                keys=keys,
                copied_bytes=sum(each["copied_bytes"] for each in answers),
            )
            job.result = await asyncio.to_thread(finish)
        finally:
            await asyncio.shield(self._release())

    def _since(self, repository: Repository) -> str | None:
        if self._request.since is None:
            return None
        if self._request.since == LATEST:
            return next(reversed(repository.ids()), None)
        return repository.resolve(self._request.since)

    def _check_topics(self) -> None:
        by_name = self._services.topics.catalogue.by_name
        for name in self._request.topics or ():
            if name not in by_name or by_name[name].is_internal:
                raise UnknownTopicError(f"there is no topic {name!r} to back up")

    # --- The moment ------------------------------------------------------------------------------

    async def _moment(self) -> tuple[int, int]:
        """Capture everything; returns when that was, and how many bytes it is about."""
        self._job.begin("capturing", 0)
        for attempt in range(_MOMENTS):
            if attempt:
                await asyncio.sleep(_AGAIN_S)
            self._captured = {
                name: topic
                for name, topic in self._services.topics.catalogue.by_name.items()
                if not topic.is_restoring
                and name not in LEFT_OUT
                and (self._request.topics is None or name in self._request.topics)
            }
            answers = await (self._capture_alone() if len(self._ids) == 1 else self._capture_all())
            if all(each["is_held"] for each in answers) or len(self._ids) == 1:
                moment_ms = self._services.clock.now_ms()
                return moment_ms, sum(each["bytes"] for each in answers)
        raise BackupUnavailableError(
            "transactions could not be held for the moment of the backup on all nodes: try again"
        )

    async def _capture_alone(self) -> list[dict[str, Any]]:
        """On one node: one step of its event loop."""
        stages = [each.value for each in Stage]
        names = self._request.topics
        return [
            await self._nodes.ask(
                self._ids[0], self._job.id, "capture", stages=stages, names=names, anew=True
            )
        ]

    async def _capture_all(self) -> list[dict[str, Any]]:
        """On several: what speaks of data first, then data, then what data speaks of.

        Meanwhile no transaction is committed: one that was decided between the two would be
        committed in the data and open for its coordinator.
        """
        ask = partial(self._nodes.ask_all, self._ids, self._job.id)
        names = self._request.topics
        await ask("hold")
        state = await ask("capture", stages=[Stage.STATE], names=names, anew=True)
        data = await ask("capture", stages=[Stage.DATA], names=names, releases=True)
        registry = await ask("capture", stages=[Stage.REGISTRY], names=names)
        return [*state, *data, *({**each, "is_held": True} for each in registry)]

    # --- The manifest ----------------------------------------------------------------------------

    def _collected(self, repository: Repository) -> dict[str, dict[int, PartitionCopy]]:
        """What the nodes have copied, by topic and partition; all of it, or an error."""
        found: dict[str, dict[int, PartitionCopy]] = {name: {} for name in self._captured}
        names = [fragment_name(self._job.id, str(each)) for each in self._ids]
        for node_id, name in zip(self._ids, names, strict=True):
            data = repository.read_small(name)
            if data is None:
                raise BackupError(
                    f"what node {node_id} has copied is not at {repository.destination} as this "
                    "node sees it: name a folder that all nodes have mounted, or a bucket"
                )
            try:
                fragments = FRAGMENTS.decode(data)
            except msgspec.MsgspecError as error:
                raise DamagedBackupError(f"{name} cannot be read: {error}") from error
            for each in fragments:
                topic = self._captured.get(each.topic)
                if topic is not None and topic.topic_id.hex == each.topic_id:
                    before = found[each.topic].get(each.copy.number)
                    if before is None or before.end_offset < each.copy.end_offset:
                        found[each.topic][each.copy.number] = each.copy
        for name, topic in self._captured.items():
            missing = [each for each in range(topic.partition_count) if each not in found[name]]
            if missing and name in self._services.topics.catalogue.by_name:
                raise BackupUnavailableError(
                    f"no node led partition {missing[0]} of {name!r} at the moment of the backup: "
                    "try again"
                )
        repository.vault.remove(names)
        return found

    def _finish(
        self,
        repository: Repository,
        copies: dict[str, dict[int, PartitionCopy]],
        *,
        moment_ms: int,
        since: str | None,
        keys: dict[str, bytes] | None,
        copied_bytes: int,
    ) -> dict[str, Any]:
        topics = [
            _topic_copy(topic, list(copies[name].values()))
            for name, topic in sorted(self._captured.items())
            if len(copies[name]) == topic.partition_count
        ]
        metadata = None
        if keys is not None:
            metadata = repository.write(metadata_name(self._job.id), [encode_keys(keys)])
        manifest = Manifest(
            self._job.id,
            moment_ms,
            goqueue.__version__,
            self._services.settings.cluster_id,
            tuple(topics),
            self._request.topics is None,
            metadata,
            since,
        )
        summary = repository.finish(manifest, copied_bytes)
        repository.forget_journals(self._job.id)
        damaged = sum(len(each.damaged) for topic in topics for each in topic.partitions)
        return {
            "topics": summary.topic_count,
            "total_bytes": summary.total_bytes,
            "copied_bytes": copied_bytes,
            "since": since,
            "damaged_ranges": damaged,
        }

    async def _release(self) -> None:
        for each in self._ids:
            try:
                await self._nodes.ask(each, self._job.id, "release")
            except BackupError:
                continue  # it lets go by itself


def _topic_copy(topic: Topic, partitions: Sequence[PartitionCopy]) -> TopicCopy:
    return TopicCopy(
        topic.name,
        topic.topic_id.hex,
        dict(topic.settings.overrides),
        stage_of(topic.name) is not Stage.DATA,
        topic.settings.compacts,
        tuple(sorted(partitions, key=lambda each: each.number)),
    )
