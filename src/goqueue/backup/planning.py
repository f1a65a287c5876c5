"""What a restore will do, before it does anything: which topics, and under which names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from goqueue.backup.manifest import TopicCopy
from goqueue.backup.repository import LATEST, NO_SECRET, Secret
from goqueue.model.errors import BackupError, RestoreConflictError, UnknownTopicError
from goqueue.model.internal_topics import DELAY_STATE, DELAYED, is_internal_topic
from goqueue.topics.names import check_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from goqueue.backup.manifest import Manifest, StoredFile
    from goqueue.topics.catalogue import Catalogue


class RestoreRequest(msgspec.Struct, frozen=True):
    """What to restore."""

    destination: str
    backup_id: str = LATEST
    topics: tuple[str, ...] | None = None
    """Names or patterns; None is everything."""
    rename: dict[str, str] = {}
    """From the name in the backup to another; only data is restored then."""
    until_ms: int | None = None
    """Messages up to this time; only data is restored then."""
    data_only: bool = False
    skip_existing: bool = False
    dry_run: bool = False
    rate_bytes: int | None = None
    secret: Secret = NO_SECRET


class RestorePlan(msgspec.Struct, frozen=True):
    """What will be restored."""

    topics: dict[str, TopicCopy]
    """By the name that each will have."""
    replaced: tuple[str, ...]
    """What an interrupted restore has left of them: it goes first."""
    skipped: tuple[str, ...]
    """Topics that are there already."""
    with_state: bool
    """Coordinator state and metadata come along."""
    state: tuple[TopicCopy, ...]

    def files(self, manifest: Manifest) -> list[StoredFile]:
        """Everything that has to be whole."""
        found = [
            part.file
            for topic in (*self.topics.values(), *self.state)
            for partition in topic.partitions
            for part in partition.parts
        ]
        if self.with_state and manifest.metadata is not None:
            found.append(manifest.metadata)
        return found

    @property
    def log_bytes(self) -> int:
        """How much will be written."""
        return sum(
            part.log_bytes
            for topic in (*self.topics.values(), *self.state)
            for partition in topic.partitions
            for part in partition.parts
        )

    def report(self) -> dict[str, Any]:
        """What people are shown of it."""
        return {
            "topics": [
                {
                    "name": name,
                    "from": copy.name,
                    "partitions": len(copy.partitions),
                    "bytes": sum(part.log_bytes for each in copy.partitions for part in each.parts),
                    "messages_up_to": sum(
                        each.end_offset - each.log_start for each in copy.partitions
                    ),
                }
                for name, copy in sorted(self.topics.items())
            ],
            "skipped": list(self.skipped),
            "with_state": self.with_state,
            "bytes": self.log_bytes,
        }


def plan_restore(request: RestoreRequest, manifest: Manifest, catalogue: Catalogue) -> RestorePlan:
    """What a request comes to.

    Raises:
        UnknownTopicError: a topic that was named is not in the backup.
        RestoreConflictError: a topic is there already.
        BackupError: the request contradicts itself.
    """
    chosen = _chosen(request, manifest)
    topics: dict[str, TopicCopy] = {}
    replaced: list[str] = []
    skipped: list[str] = []
    for copy in chosen:
        name = request.rename.get(copy.name, copy.name)
        check_name(name)
        if is_internal_topic(copy.name) and name == copy.name:
            continue  # what was audited there is not what was audited here: see it by another name
        if is_internal_topic(name) or name in topics:
            raise BackupError(
                f"a topic cannot be restored as {name!r}, which another one or the broker has: "
                "choose another name"
            )
        there = catalogue.by_name.get(name)
        if there is not None and not there.is_restoring:
            skipped.append(name)
            continue
        if there is not None:
            replaced.append(name)
        topics[name] = copy
    if skipped and not request.skip_existing:
        raise RestoreConflictError(
            f"topic {skipped[0]!r} is there already: restore it under another name with --rename "
            f"{skipped[0]}=NAME, leave it out with --skip-existing, or delete it first"
        )
    is_whole = manifest.is_whole and not skipped and not request.data_only
    is_part = request.topics is not None or request.rename or request.until_ms is not None
    with_state = is_whole and not is_part
    state = tuple(each for each in manifest.topics if each.is_internal) if with_state else ()
    _check_delays(state, catalogue)
    return RestorePlan(topics, tuple(replaced), tuple(skipped), with_state, state)


def _chosen(request: RestoreRequest, manifest: Manifest) -> list[TopicCopy]:
    if request.until_ms is not None and request.until_ms > manifest.created_ms:
        raise BackupError(
            "the time lies after the moment of the backup: choose an earlier one, or a later backup"
        )
    users = [each for each in manifest.topics if not each.is_internal]
    names = {each.name for each in users}
    _check_known(request.rename, names)
    if request.topics is None:
        return users
    for pattern in request.topics:
        if not any(fnmatchcase(each, pattern) for each in names):
            raise UnknownTopicError(f"the backup has no topic {pattern!r}")
    return [
        each for each in users if any(fnmatchcase(each.name, pattern) for pattern in request.topics)
    ]


def _check_known(wanted: Collection[str], names: Collection[str]) -> None:
    for name in wanted:
        if name not in names:
            raise UnknownTopicError(f"the backup has no topic {name!r} to be renamed")


def _check_delays(state: tuple[TopicCopy, ...], catalogue: Catalogue) -> None:
    """Delayed messages stay in the units that they are in, as their ids say."""
    for copy in state:
        if copy.name not in {DELAYED, DELAY_STATE}:
            continue
        there = catalogue.by_name.get(copy.name)
        used = max((each.number for each in copy.partitions if each.parts), default=-1)
        if there is not None and used >= there.partition_count:
            raise RestoreConflictError(
                f"the backup has delayed messages in partition {used} of {copy.name}, and here are "
                f"{there.partition_count}: restore into a cluster, or only data with --data-only"
            )


def free_id(copy: TopicCopy, name: str, catalogue: Catalogue) -> UUID | None:
    """The id that a topic had, if it gets its name and nobody has the id."""
    topic_id = UUID(hex=copy.topic_id)
    return topic_id if name == copy.name and topic_id not in catalogue.by_id else None
