"""What is asked and answered of backups."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from goqueue.protocols.http.api.shapes import Milliseconds, TopicName, doc

Destination: TypeAlias = Annotated[
    str,
    doc(
        "An absolute path at the server, or `s3://bucket/prefix`.",
        "/var/backups/goqueue",
        min_length=1,
        max_length=1024,
    ),
]
BackupId: TypeAlias = Annotated[
    str, doc("A backup or a job; `latest` is the newest backup.", "latest", max_length=64)
]
KeyFile: TypeAlias = Annotated[
    str | None,
    doc("The path at the server of a file with a key of 32 bytes.", "/etc/goqueue/backup.key"),
]
_Text: TypeAlias = Annotated[str, doc("Not empty.", "correct horse", min_length=1, max_length=1024)]
Passphrase: TypeAlias = Annotated[_Text | None, doc("Instead of a key file.")]
_Positive: TypeAlias = Annotated[int, doc("At least 1.", 50_000_000, ge=1)]
Rate: TypeAlias = Annotated[
    _Positive | None, doc("Bytes a second on each node; unlimited if omitted.")
]
_TimeOfDay: TypeAlias = Annotated[
    str, doc("In UTC.", "02:00", pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")
]


class BackupPath(msgspec.Struct, frozen=True):
    """A backup in the path."""

    id: BackupId


class DestinationQuery(msgspec.Struct, frozen=True):
    """Where the backups are."""

    destination: Annotated[
        str | None, doc("As when they were made; may be omitted for a job of this node.")
    ] = None


class Keyed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A destination and its key."""

    destination: Destination
    key_file: KeyFile = None
    passphrase: Passphrase = None


class BackupBody(Keyed, kw_only=True):
    """What to back up."""

    topics: Annotated[
        list[TopicName] | None,
        doc("Only the data of these topics; everything, with coordinator state, if omitted."),
    ] = None
    since: Annotated[
        str | None, doc("The backup to compare with: what it has is not copied again.", "latest")
    ] = "latest"
    full: Annotated[bool, doc("Copy everything anew.")] = False
    rate_bytes: Rate = None


class VerifyBody(Keyed, kw_only=True):
    """What to verify."""


class RestoreBody(Keyed, kw_only=True):
    """What to restore."""

    topics: Annotated[
        list[str] | None, doc("Names or patterns as in `orders-*`; everything if omitted.")
    ] = None
    rename: Annotated[
        dict[str, TopicName],
        doc("New names by those in the backup.", {"orders": "orders-restored"}),
    ] = {}
    to: Annotated[
        Milliseconds | None, doc("Only messages up to this time; topic data only.", 1767225600000)
    ] = None
    data_only: Annotated[bool, doc("Leave out offsets, queues, users and all other state.")] = False
    skip_existing: Annotated[bool, doc("Leave out topics that exist instead of failing.")] = False
    dry_run: Annotated[bool, doc("Verify and tell what would be restored; change nothing.")] = False
    rate_bytes: Rate = None


class PruneBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which backups stay."""

    destination: Destination
    keep: Annotated[int, doc("So many of the newest.", 7, ge=1, le=100_000)] = 7


class Pruned(msgspec.Struct):
    """Which backups were removed."""

    removed: list[str]


class BackupInfo(msgspec.Struct):
    """One backup."""

    id: str
    created_at: Milliseconds
    version: Annotated[str, doc("Of the server that made it.", "0.7.0")]
    whole: Annotated[bool, doc("With coordinator state and metadata.")]
    encrypted: bool
    since: Annotated[str | None, doc("The backup it was compared with.")]
    topics: int
    total_bytes: Annotated[int, doc("Of all partitions.")]
    copied_bytes: Annotated[int, doc("Copied by this backup; the rest was there already.")]


class BackupJob(msgspec.Struct):
    """A job: a backup, a verification or a restore."""

    id: str
    kind: Annotated[str, doc("`backup`, `verification` or `restore`.", "backup")]
    state: Annotated[str, doc("`running`, `done`, `failed` or `cancelled`.", "running")]
    stage: Annotated[str, doc("What it does now.", "copying")]
    destination: str
    done_bytes: Annotated[int, doc("Of this stage.")]
    total_bytes: int
    started_at: Milliseconds
    ended_at: Annotated[int | None, doc("Null while it is running.")]
    error: Annotated[str | None, doc("Why it failed.")]
    result: Annotated[dict[str, Any], doc("What came of it.")]


class BackupDetails(msgspec.Struct):
    """A job, a backup, or both."""

    id: str
    job: BackupJob | None
    backup: BackupInfo | None


class Backups(msgspec.Struct):
    """The backups at a destination, and the jobs of the node."""

    backups: list[BackupInfo]
    jobs: list[BackupJob]


class BackupDeleted(msgspec.Struct):
    """What was removed."""

    id: str
    cancelled: Annotated[bool, doc("Whether a running job was cancelled.")]
    files: Annotated[int, doc("Files that were removed.")]


class ScheduleBody(msgspec.Struct, forbid_unknown_fields=True):
    """When to make which backup."""

    destination: Destination
    every_ms: Annotated[int, doc("The interval.", 86_400_000, ge=60_000)] = 86_400_000
    at: Annotated[
        _TimeOfDay | None, doc("The time of day; the interval is a number of days then.")
    ] = None
    keep: Annotated[int, doc("Older backups are pruned after each.", 7, ge=1, le=100_000)] = 7
    topics: list[TopicName] | None = None
    key_file: KeyFile = None
    rate_bytes: Rate = None


class ScheduleInfo(msgspec.Struct):
    """The schedule; all null if there is none."""

    schedule: ScheduleBody | None
    last_run: Annotated[int | None, doc("When the last backup was begun.")]
    next_run: Annotated[int | None, doc("When the next one is due.")]
