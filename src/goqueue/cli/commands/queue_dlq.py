"""`goqueue queue dlq`: list, show, redrive, delete or purge dead letters."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.completion import topic_names
from goqueue.cli.errors import UsageError
from goqueue.cli.output import note, plain
from goqueue.cli.progress_bars import Bars
from goqueue.cli.times import moment_ms, show_age, show_time
from goqueue.protocols.http.queues.dead_letter_shapes import (
    LetterDetail,
    LetterLine,
    LetterList,
    Purged,
    RedriveAnswer,
)
from goqueue.protocols.http.queues.letter_selection_shapes import (
    DeletedLetters,
    ErrorLine,
    ErrorsAnswer,
)

app = typer.Typer(
    no_args_is_help=True, help="Dead-letter queues: list, show, redrive, delete, purge."
)

_LOOK_S: Final = 0.2
_SHOWN: Final = ("topic", "to", "state", "total", "done", "failed", "rate", "error")
_OVER: Final = frozenset({"done", "cancelled", "failed"})

SourceArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="The source topic.", autocompletion=topic_names),
]
ReasonOption: TypeAlias = Annotated[
    str | None, typer.Option("--reason", help="The reason, such as REJECTED.")
]
GroupOption: TypeAlias = Annotated[
    str | None, typer.Option("--group", help="The group that dead-lettered them.")
]
SinceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Dead-lettered at this time or later; 15m is an age."
    ),
]
UntilOption: TypeAlias = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Dead-lettered before this time.")
]
ErrorOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--error", help="The last error; numbers and ids in it are ignored."),
]
LetterOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--letter", metavar="PARTITION:OFFSET", help="Only this letter; repeatable."),
]


@command(app, "list")
def list_letters(
    call: Call,
    topic: SourceArgument,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="The maximum number of letters.")
    ] = 100,
    skip: Annotated[int, typer.Option("--skip", min=0, help="How many letters to skip.")] = 0,
    reason: ReasonOption = None,
    group: GroupOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    error: ErrorOption = None,
) -> None:
    """List the dead letters of a topic that have not been redriven."""
    answer = call.api.get(
        LetterList,
        "/topics/{}/dlq",
        topic,
        limit=limit,
        skip=skip,
        reason=reason,
        group=group,
        since=moment_ms(since, "--since"),
        until=moment_ms(until, "--until"),
        error=error,
    )
    call.show(
        answer,
        [_row(each) for each in answer.letters],
        empty=f"{topic} has no such dead letters: other filters may find some",
    )
    if answer.total > len(answer.letters):
        note(f"{len(answer.letters)} of {answer.total} dead letters")


@command(app, "errors")
def list_errors(
    call: Call,
    topic: SourceArgument,
    *,
    reason: ReasonOption = None,
    group: GroupOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> None:
    """Count the dead letters of a topic by reason and last error, numbers and ids ignored."""
    answer = call.api.get(
        ErrorsAnswer,
        "/topics/{}/dlq/errors",
        topic,
        reason=reason,
        group=group,
        since=moment_ms(since, "--since"),
        until=moment_ms(until, "--until"),
    )
    call.show(
        answer,
        [_error_row(each) for each in answer.errors],
        empty=f"{topic} has no such dead letters",
    )
    if answer.next is not None:
        note(f"only the first {answer.letters} dead letters are counted")


@command(app, "show")
def show_letter(
    call: Call,
    topic: SourceArgument,
    partition: Annotated[
        int, typer.Argument(metavar="PARTITION", min=0, help="The partition, as listed.")
    ],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="The offset, as listed.")],
) -> None:
    """Show one dead letter: value, headers, source and reason."""
    letter = call.api.get(LetterDetail, "/topics/{}/dlq/{}/{}", topic, partition, offset)
    times = ("source_timestamp", "first_delivery", "last_delivery", "died_at")
    table = {
        name: show_time(value) if name in times and value is not None else value
        for name, value in plain(letter).items()
        if name not in {"preview", "preview_encoding", "headers"}
    }
    headers = [{"header": each.name, "value": each.value} for each in letter.headers]
    call.show(letter, {**table, "headers": headers} if headers else table)


@command(app, "redrive")
def redrive_letters(
    call: Call,
    topic: SourceArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", help="The target topic. (default: the source topic)", autocompletion=topic_names
        ),
    ] = None,
    reason: ReasonOption = None,
    group: GroupOption = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Only letters with this key.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    error: ErrorOption = None,
    letters: LetterOption = None,
    set_key: Annotated[
        str | None, typer.Option("--set-key", help="Replace the key of the one --letter.")
    ] = None,
    set_value: Annotated[
        str | None, typer.Option("--set-value", help="Replace the value of the one --letter.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="The maximum number of letters.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, help="The rate limit in messages per second."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be redriven; publish nothing.")
    ] = False,
    force: ForceOption = False,
) -> None:
    """Redrive dead letters to their source topic or another, all or some of them.

    Ctrl-C cancels the redrive; what was redriven is not redriven again.
    """
    chosen = _chosen((since, until), letters, reason=reason, group=group, key=key, error=error)
    edit = _said({"key": set_key, "value": set_value})
    body = {
        "to": to,
        "filter": chosen,
        "edit": edit or None,
        "limit": limit,
        "rate": rate,
        "dry_run": dry_run,
    }
    if not dry_run:
        what = "The selected dead letters" if body["filter"] or limit else "All dead letters"
        confirm(f"{what} of {topic} will be published to {to or topic} again.", force=force)
    body = {name: value for name, value in body.items() if value is not None}
    begun = call.api.post(RedriveAnswer, "/topics/{}/dlq/redrive", topic, body=body)
    redrive = _follow(call, begun)
    call.show(redrive, {name: getattr(redrive, name) for name in _SHOWN})
    if redrive.state == "failed" or redrive.failed:
        raise typer.Exit(1)


@command(app, "delete")
def delete_letters(
    call: Call,
    topic: SourceArgument,
    *,
    reason: ReasonOption = None,
    group: GroupOption = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Only letters with this key.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    error: ErrorOption = None,
    letters: LetterOption = None,
    force: ForceOption = False,
) -> None:
    """Delete selected dead letters of a topic: they are neither listed nor redriven any more."""
    chosen = _chosen((since, until), letters, reason=reason, group=group, key=key, error=error)
    if not chosen:
        raise UsageError("no option selects letters: expected one, such as --letter or --error")
    confirm(f"The selected dead letters of {topic} will be deleted.", force=force)
    body = {"filter": chosen}
    call.show(call.api.post(DeletedLetters, "/topics/{}/dlq/delete", topic, body=body))


@command(app, "purge")
def purge_letters(call: Call, topic: SourceArgument, force: ForceOption = False) -> None:
    """Delete all dead letters of a topic."""
    confirm(f"All dead letters of {topic} will be deleted.", force=force)
    call.show(call.api.delete(Purged, "/topics/{}/dlq", topic, confirm="true"))


def _follow(call: Call, redrive: RedriveAnswer) -> RedriveAnswer:
    """Wait for a redrive, and show its progress."""
    try:
        with Bars() as bars:
            while redrive.state not in _OVER:
                time.sleep(_LOOK_S)
                redrive = call.api.get(RedriveAnswer, "/redrives/{}", redrive.id)
                bars("redriving", redrive.done + redrive.failed, redrive.total or None)
    except KeyboardInterrupt:
        redrive = call.api.delete(RedriveAnswer, "/redrives/{}", redrive.id)
        note("the redrive was cancelled")
    return redrive


def numbers(text: str, option: str) -> list[int]:
    """Whole numbers with commas between them."""
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise UsageError(f"{option}: {text!r}: expected numbers such as 50,25,15,7,3") from None


def _chosen(
    times: tuple[str | None, str | None], letters: list[str] | None, **fields: str | None
) -> dict[str, Any]:
    """The filter of a request, of what is said."""
    since, until = times
    return _said(
        {
            **fields,
            "since": moment_ms(since, "--since"),
            "until": moment_ms(until, "--until"),
            "offsets": _places(letters) if letters else None,
        }
    )


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _places(letters: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in letters:
        partition, _, offset = each.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise UsageError(f"--letter: {each!r} is no letter; expected PARTITION:OFFSET")
        found.setdefault(partition, []).append(int(offset))
    return found


def _error_row(line: ErrorLine) -> dict[str, Any]:
    return {
        "letters": line.count,
        "reason": line.reason,
        "error": line.error or None,
        "newest": show_time(line.newest_at),
        "groups": ", ".join(line.groups),
        "example": f"{line.example.partition}:{line.example.offset}",
    }


def _row(letter: LetterLine) -> dict[str, Any]:
    return {
        "letter": f"{letter.partition}:{letter.offset}",
        "dead_lettered": show_age(letter.died_at),
        "reason": letter.reason,
        "error": letter.error,
        "group": letter.group,
        "deliveries": letter.deliveries,
        "key": letter.key,
        "value": letter.preview,
    }
