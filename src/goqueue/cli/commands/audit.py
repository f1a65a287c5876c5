"""`goqueue audit`: read an audit log, and check that it is as it was written. Needs no server."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.output import Format, emit_line, note
from goqueue.cli.times import moment_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.audit.chain import Link

app = typer.Typer(no_args_is_help=True, help="The audit log: show events, check the hash chain.")

_FOLDER: Final = Path("data/audit")
_NOT_LINES: Final = ("previous", "hash")

PathsArgument: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH]...",
        help="Files of the log in their order, or its folder. (default: data/audit)",
    ),
]


@command(app, "verify")
def verify_log(
    call: Call,
    paths: PathsArgument = None,
    part: Annotated[
        bool, typer.Option("--part", help="The files are only the end of the log.")
    ] = False,
    contains: Annotated[
        str | None,
        typer.Option("--contains", metavar="HASH", help="A hash that has to be in the log."),
    ] = None,
) -> None:
    """Check that no line was changed, removed, inserted or moved; the exit code is 1 otherwise.

    Store the hash of the last line elsewhere from time to time, and check with --contains that it
    is still in the log: somebody who rewrites the whole log cannot keep that hash.
    """
    from goqueue.audit.verifying import verify  # noqa: PLC0415 - start-up stays light

    files, head = _files(paths)
    sought = None if contains is None else f',"hash":"{contains.lower()}"'.encode()
    is_there = False

    def lines() -> Iterator[bytes]:
        nonlocal is_there
        for line in _lines(files):
            is_there = is_there or (sought is not None and sought in line)
            yield line

    found = verify(lines(), head=head, is_part=part)
    if sought is not None and not is_there:
        found.problems.append(f"no line has the hash {contains}: the log was written anew")
    call.show(found, {name: value for name, value in _row(found).items() if name != "problems"})
    for problem in found.problems if call.output is Format.TABLE else ():
        note(f"goqueue: {problem}")
    if found.problems:
        raise typer.Exit(1)


def _row(found: Any) -> dict[str, object]:
    return {
        "status": "damaged" if found.problems else "as it was written",
        **{name: getattr(found, name) for name in found.__struct_fields__},
    }


@command(app, "show")
def show_log(
    call: Call,
    paths: PathsArgument = None,
    *,
    event: Annotated[
        list[str] | None, typer.Option("--event", "-e", help="Only these events; repeatable.")
    ] = None,
    principal: Annotated[
        str | None,
        typer.Option("--principal", "-p", help="Only of this principal, as in User:alice."),
    ] = None,
    client: Annotated[str | None, typer.Option("--client", help="Only from this address.")] = None,
    resource: Annotated[
        str | None, typer.Option("--resource", "-r", help="Only with this in the resource.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", help="success, failure or denied.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="At this time or later; 15m is an age."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Before this time.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Only the last events, this many.")
    ] = 100,
) -> None:
    """Show events of the audit log, the oldest first; -o json prints a line of JSON each.

    The lines are not checked: `goqueue audit verify` does that.
    """
    wanted = {"principal": principal, "client": client, "outcome": outcome}
    exact = {name: value for name, value in wanted.items() if value is not None}
    first_ms, end_ms = moment_ms(since, "--since"), moment_ms(until, "--until")
    files, _ = _files(paths)
    newest: deque[dict[str, Any]] = deque(maxlen=limit)
    for fields in _events(files):
        if (
            (not event or fields.get("event") in event)
            and all(fields.get(name) == value for name, value in exact.items())
            and (resource is None or resource in str(fields.get("resource")))
            and _is_within(str(fields.get("time")), first_ms, end_ms)
        ):
            newest.append(fields)
    if call.output is not Format.TABLE:
        for fields in newest:
            emit_line(fields, call.output)
        return
    call.show(
        [],
        [_shown(each) for each in newest],
        empty="no such events: widen the filters, or see whether audit.enabled is set",
    )


def _shown(fields: dict[str, Any]) -> dict[str, object]:
    details = fields.get("details")
    said = details.items() if isinstance(details, dict) else ()
    return {
        **{
            name: fields.get(name)
            for name in ("seq", "time", "node", "event", "principal", "client", "resource")
        },
        "outcome": fields.get("outcome"),
        "details": " ".join(f"{name}={value}" for name, value in said),
    }


def _is_within(time: str, first_ms: int | None, end_ms: int | None) -> bool:
    if first_ms is None and end_ms is None:
        return True
    when_ms = moment_ms(time, "time")
    assert when_ms is not None
    return (first_ms is None or when_ms >= first_ms) and (end_ms is None or when_ms < end_ms)


def _events(files: list[Path]) -> Iterator[dict[str, Any]]:
    from goqueue.audit.chain import decode_line  # noqa: PLC0415 - as above

    skipped = 0
    for line in _lines(files):
        found = decode_line(line)
        if found is None:
            skipped += 1
        else:
            yield {name: value for name, value in found.fields.items() if name not in _NOT_LINES}
    if skipped:
        note(f"goqueue: {skipped} lines are no events: see `goqueue audit verify`")


def _files(paths: list[Path] | None) -> tuple[list[Path], Link | None]:
    """The files of the log, and its head where a folder was given."""
    from goqueue.audit.files import log_names, read_head  # noqa: PLC0415 - as above
    from goqueue.runtime.disk import SystemDisk  # noqa: PLC0415 - as above

    files: list[Path] = []
    head = None
    for path in paths or [_FOLDER]:
        if path.is_dir():
            names = log_names([each.name for each in path.iterdir()])
            if not names:
                raise UsageError(f"{path} holds no audit log, expected files audit-….log")
            files += [path / name for name in names]
            head = read_head(SystemDisk(), path)
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError(
                f"{path} is not there; give the files of an audit log, or the folder `audit` in "
                "the server's data folder"
            )
    return files, head


def _lines(files: list[Path]) -> Iterator[bytes]:
    from goqueue.audit.verifying import read_lines  # noqa: PLC0415 - as above

    for path in files:
        try:
            yield from read_lines(path)
        except OSError as error:
            raise CliError(f"{path} cannot be read: {error.strerror or error}") from error
