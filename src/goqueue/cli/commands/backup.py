"""`goqueue backup`: make, list, verify, prune, schedule and restore backups.

The server makes the backup: a folder is a path there. The command follows the job.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm, parse_pairs
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.output import note
from goqueue.cli.progress_bars import Bars
from goqueue.cli.times import parse_time_ms, span_ms
from goqueue.protocols.http.backups.backup_shapes import (
    BackupDeleted,
    BackupDetails,
    BackupJob,
    Backups,
    Pruned,
    ScheduleInfo,
)

app = typer.Typer(
    no_args_is_help=True, help="Make, list, verify, prune, schedule and restore backups."
)
schedule_app = typer.Typer(no_args_is_help=True, help="Backups that the server makes by itself.")
app.add_typer(schedule_app, name="schedule")

_LOOK_S: Final = 0.2
_PASSPHRASE: Final = "GOQUEUE_BACKUP_PASSPHRASE"  # noqa: S105 - the name of a variable
_UNITS: Final = {"k": 10**3, "m": 10**6, "g": 10**9}

Destination: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="DIR|s3://BUCKET/PREFIX", help="A path at the server, or an S3 prefix."),
]
BackupArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="[ID]", help="The backup; the newest if omitted.")
]
TopicsOption: TypeAlias = Annotated[
    str | None, typer.Option("--topics", metavar="A,B", help="Only these topics.")
]
KeyFileOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--key-file", metavar="PATH", help="A file with a key, at the server."),
]
PassphraseOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="PATH",
        help=f"A file with a passphrase, here; or set {_PASSPHRASE}.",
    ),
]
RateOption: TypeAlias = Annotated[
    str | None, typer.Option("--rate", metavar="50MB", help="Bytes a second, on each node.")
]
NoWaitOption: TypeAlias = Annotated[
    bool, typer.Option("--no-wait", help="Return once the job is running.")
]


@command(app, "create")
def create_backup(
    call: Call,
    destination: Destination,
    *,
    topics: TopicsOption = None,
    since: Annotated[
        str, typer.Option("--since", metavar="ID", help="Copy only what this backup lacks.")
    ] = "latest",
    full: Annotated[bool, typer.Option("--full", help="Copy everything anew.")] = False,
    key_file: KeyFileOption = None,
    passphrase_file: PassphraseOption = None,
    rate: RateOption = None,
    no_wait: NoWaitOption = False,
) -> None:
    """Back up everything, or the data of some topics, while the broker serves clients."""
    body = {
        "destination": _destination(destination),
        "topics": _names(topics),
        "since": since,
        "full": full,
        "rate_bytes": _bytes(rate),
        **_key(key_file, passphrase_file),
    }
    _follow(call, call.api.post(BackupJob, "/admin/backup", body=body), no_wait=no_wait)


@command(app, "list")
def list_backups(call: Call, destination: Destination) -> None:
    """List the backups at a destination, the newest first."""
    found = call.api.get(Backups, "/admin/backup", destination=_destination(destination))
    call.show(found.backups, empty="no backups there: `goqueue backup create` makes one")


@command(app, "show")
def show_backup(
    call: Call,
    backup_id: Annotated[str, typer.Argument(metavar="ID", help="A job or a backup.")],
    destination: Annotated[
        str | None, typer.Option("--destination", "-d", help="Where the backup is.")
    ] = None,
) -> None:
    """Show a job with its progress, or a backup."""
    where = None if destination is None else _destination(destination)
    found = call.api.get(BackupDetails, "/admin/backup/{}", backup_id, destination=where)
    call.show(found, found.job or found.backup)


@command(app, "verify")
def verify_backup(
    call: Call,
    destination: Destination,
    backup_id: BackupArgument = "latest",
    key_file: KeyFileOption = None,
    passphrase_file: PassphraseOption = None,
) -> None:
    """Read every file of a backup and compare it with its checksum."""
    body = {"destination": _destination(destination), **_key(key_file, passphrase_file)}
    job = call.api.post(BackupJob, "/admin/backup/{}/verify", backup_id, body=body)
    _follow(call, job)


@command(app, "prune")
def prune_backups(
    call: Call,
    destination: Destination,
    keep: Annotated[int, typer.Option("--keep", min=1, help="The number of backups to keep.")] = 7,
    force: ForceOption = False,
) -> None:
    """Delete all but the newest backups, and the files that no other one needs."""
    confirm(f"All but the newest {keep} backups will be deleted.", force=force)
    body = {"destination": _destination(destination), "keep": keep}
    call.show(call.api.post(Pruned, "/admin/backup/prune", body=body))


@command(app, "delete")
def delete_backup(
    call: Call,
    backup_id: Annotated[str, typer.Argument(metavar="ID", help="A backup, or a running job.")],
    destination: Annotated[
        str | None, typer.Option("--destination", "-d", help="Where the backup is.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Cancel a running job, or delete one backup."""
    confirm(f"Backup {backup_id} will be deleted, or its job cancelled.", force=force)
    where = None if destination is None else _destination(destination)
    call.show(call.api.delete(BackupDeleted, "/admin/backup/{}", backup_id, destination=where))


@command(app, "restore")
def restore_backup(
    call: Call,
    destination: Destination,
    backup_id: BackupArgument = "latest",
    *,
    topics: TopicsOption = None,
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="OLD=NEW", help="Restore a topic under another name."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Messages up to a time; topic data only."),
    ] = None,
    data_only: Annotated[
        bool, typer.Option("--data-only", help="Topic data without offsets, users and state.")
    ] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave out topics that exist.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Verify, and show what would be restored.")
    ] = False,
    key_file: KeyFileOption = None,
    passphrase_file: PassphraseOption = None,
    rate: RateOption = None,
    no_wait: NoWaitOption = False,
) -> None:
    """Restore everything into an empty broker, or some topics into any."""
    body = {
        "destination": _destination(destination),
        "topics": _names(topics),
        "rename": parse_pairs(rename, "--rename"),
        "to": None if to is None else parse_time_ms(to, "--to", round(time.time() * 1000)),
        "data_only": data_only,
        "skip_existing": skip_existing,
        "dry_run": dry_run,
        "rate_bytes": _bytes(rate),
        **_key(key_file, passphrase_file),
    }
    job = call.api.post(BackupJob, "/admin/backup/{}/restore", backup_id, body=body)
    _follow(call, job, no_wait=no_wait)


@command(schedule_app, "set")
def set_schedule(
    call: Call,
    destination: Destination,
    *,
    every: Annotated[str, typer.Option("--every", metavar="6h", help="The interval.")] = "1d",
    at: Annotated[
        str | None, typer.Option("--at", metavar="HH:MM", help="The time of day, in UTC.")
    ] = None,
    keep: Annotated[int, typer.Option("--keep", min=1, help="The number of backups to keep.")] = 7,
    topics: TopicsOption = None,
    key_file: KeyFileOption = None,
    rate: RateOption = None,
) -> None:
    """Let the server make backups by itself, and prune old ones."""
    body = {
        "destination": _destination(destination),
        "every_ms": span_ms(every, "--every"),
        "at": at,
        "keep": keep,
        "topics": _names(topics),
        "key_file": key_file,
        "rate_bytes": _bytes(rate),
    }
    call.show(call.api.put(ScheduleInfo, "/admin/backup/schedule", body=body))


@command(schedule_app, "show")
def show_schedule(call: Call) -> None:
    """Show the schedule, its last run and its next."""
    call.show(call.api.get(ScheduleInfo, "/admin/backup/schedule"))


@command(schedule_app, "remove")
def remove_schedule(call: Call) -> None:
    """Make no more backups by schedule; those that were made stay."""
    call.show(call.api.delete(ScheduleInfo, "/admin/backup/schedule"))


def _follow(call: Call, job: BackupJob, *, no_wait: bool = False) -> None:
    """Show the progress of a job until it ends, and what came of it."""
    if no_wait:
        call.show(job)
        return
    try:
        with Bars(names_stages=True) as bars:
            while job.state == "running":
                bars(job.stage, job.done_bytes, job.total_bytes or None)
                time.sleep(_LOOK_S)
                job = call.api.get(BackupDetails, "/admin/backup/{}", job.id).job or job
    except KeyboardInterrupt:
        note(f"{job.kind} {job.id} goes on at the server; cancel it with: goqueue backup delete")
        raise
    if job.state != "done":
        raise CliError(f"the {job.kind} {job.id} {job.state}: {job.error}")
    call.show(job, {"id": job.id, **_flat(job.result)})


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    """What a table shows of a result."""
    shown = {}
    for name, value in result.items():
        if isinstance(value, list):
            shown[name] = ", ".join(
                each["name"] if isinstance(each, dict) else str(each) for each in value
            )
        else:
            shown[name] = value
    return shown


def _destination(text: str) -> str:
    """A folder as the server must be told of it: its whole path."""
    return text if "://" in text else str(Path(text).absolute())


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [each.strip() for each in text.split(",") if each.strip()]


def _bytes(text: str | None) -> int | None:
    """`50MB`, `500k` or a number.

    Raises:
        UsageError: it is none of them.
    """
    if text is None:
        return None
    number = text.lower().removesuffix("b")
    unit = _UNITS.get(number[-1:], 1)
    try:
        found = round(float(number[:-1] if unit > 1 else number) * unit)
    except ValueError:
        found = 0
    if found < 1:
        raise UsageError(f"--rate: {text!r} is no rate; expected something like 50MB")
    return found


def _key(key_file: str | None, passphrase_file: Path | None) -> dict[str, str | None]:
    passphrase = os.environ.get(_PASSPHRASE) if key_file is None else None
    if passphrase_file is not None:
        if key_file is not None:
            raise UsageError("--key-file and --passphrase-file: give one of the two")
        try:
            passphrase = passphrase_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UsageError(f"--passphrase-file: {passphrase_file}: {error.strerror}") from error
    path = None if key_file is None else str(Path(key_file).absolute())
    return {"key_file": path, "passphrase": passphrase or None}
