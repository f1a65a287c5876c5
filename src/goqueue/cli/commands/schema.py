"""`goqueue schema`: what schemas there are, and every way to change them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.completion import subject_names
from goqueue.cli.errors import CliError, UsageError

app = typer.Typer(no_args_is_help=True, help="Register, look at and delete schemas.")

SubjectArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="The subject, as in orders-value for the values of topic orders.",
        autocompletion=subject_names,
    ),
]
ScopeArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="SUBJECT",
        help="The subject; left out: what counts for all that have none of their own.",
        autocompletion=subject_names,
    ),
]
FileArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="The schema; - is standard input.")
]
VersionOption: TypeAlias = Annotated[
    str, typer.Option("--version", "-v", metavar="N", help="A number, or latest.")
]
TypeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--type",
        "-t",
        metavar="TYPE",
        help="AVRO, JSON or PROTOBUF (default: by the file's ending).",
    ),
]
ReferenceOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:N",
        help="What the schema calls NAME is version N of SUBJECT; repeatable.",
    ),
]
NormalizeOption: TypeAlias = Annotated[
    bool, typer.Option("--normalize", help="The order of what has none does not count.")
]
SetOption: TypeAlias = Annotated[
    str | None, typer.Option("--set", metavar="VALUE", help="What it shall be from now on.")
]
UnsetOption: TypeAlias = Annotated[
    bool, typer.Option("--unset", help="Back to the default, or to what counts for all.")
]

_TYPES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_MANY: Final = 100_000


@command(app, "list")
def list_subjects(
    call: Call,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="How their names begin.")
    ] = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Also what was deleted, but not for ever.")
    ] = False,
) -> None:
    """List all subjects with their latest versions."""
    versions: dict[str, list[dict[str, Any]]] = {}
    for each in call.api.get(
        "/schemas", subjectPrefix=prefix, deleted=str(deleted).lower(), limit=_MANY
    ):
        versions.setdefault(each["subject"], []).append(each)
    call.show(
        [
            {
                "subject": name,
                "latest": found[-1]["version"],
                "id": found[-1]["id"],
                "type": found[-1].get("schemaType", "AVRO"),
                "versions": len(found),
                "deleted": all(each.get("deleted", False) for each in found),
            }
            for name, found in versions.items()
        ]
    )


@command(app, "get")
def get_schema(
    call: Call,
    subject: Annotated[
        str | None,
        typer.Argument(metavar="SUBJECT", help="The subject.", autocompletion=subject_names),
    ] = None,
    *,
    version: VersionOption = "latest",
    schema_id: Annotated[
        int | None, typer.Option("--id", metavar="ID", help="A schema by its id instead.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the schema and nothing else.")] = False,
) -> None:
    """Show a version of a subject, or a schema by its id."""
    if (subject is None) == (schema_id is None):
        raise UsageError("which schema? Name a subject, or say --id")
    if subject is None:
        found = call.api.get("/schemas/ids/{}", schema_id)
    else:
        found = call.api.get("/subjects/{}/versions/{}", subject, version)
    if raw:
        typer.echo(found["schema"])
    else:
        call.show(found)


@command(app, "versions")
def list_versions(call: Call, subject: SubjectArgument) -> None:
    """List the versions of a subject, those that were deleted among them."""
    found = call.api.get("/schemas", subjectPrefix=subject, deleted="true", limit=_MANY)
    rows = [
        {
            "version": each["version"],
            "id": each["id"],
            "type": each.get("schemaType", "AVRO"),
            "deleted": each.get("deleted", False),
        }
        for each in found
        if each["subject"] == subject
    ]
    if not rows:
        call.api.get("/subjects/{}/versions", subject)  # the server says it better
    call.show(rows, empty="no schemas")


@command(app, "register")
def register_schema(
    call: Call,
    subject: SubjectArgument,
    file: FileArgument,
    *,
    kind: TypeOption = None,
    references: ReferenceOption = None,
    normalize: NormalizeOption = False,
) -> None:
    """Make a schema the next version of a subject."""
    path = "/subjects/{}/versions" + ("?normalize=true" if normalize else "")
    call.show(call.api.post(path, subject, body=_body(file, kind, references)))


@command(app, "check")
def check_schema(
    call: Call,
    subject: SubjectArgument,
    file: FileArgument,
    *,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            "-v",
            metavar="N",
            help="Against this version alone (default: all that the subject's level says).",
        ),
    ] = None,
    kind: TypeOption = None,
    references: ReferenceOption = None,
) -> None:
    """Say whether a schema could be the next version; the exit code is 1 if not."""
    body = _body(file, kind, references)
    names = (subject,) if version is None else (subject, version)
    path = "/compatibility/subjects/{}/versions" + ("" if version is None else "/{}")
    verdict = call.api.post(f"{path}?verbose=true", *names, body=body)
    problems = verdict.get("messages", [])
    call.show(
        {"compatible": verdict["is_compatible"], "problems": problems},
        {
            "compatible": verdict["is_compatible"],
            "problems": [{"problem": each} for each in problems],
        },
    )
    if not verdict["is_compatible"]:
        raise typer.Exit(1)


@command(app, "delete")
def delete_schema(
    call: Call,
    subject: SubjectArgument,
    *,
    version: Annotated[
        str | None,
        typer.Option("--version", "-v", metavar="N", help="This one alone (default: all of them)."),
    ] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="For ever; only what was deleted before.")
    ] = False,
    force: ForceOption = False,
) -> None:
    """Delete a subject, or one version of it."""
    what = f"Subject {subject}" if version is None else f"Version {version} of subject {subject}"
    confirm(f"{what} will be deleted{' for ever' if permanent else ''}.", force=force)
    names = (subject,) if version is None else (subject, version)
    path = "/subjects/{}" + ("" if version is None else "/versions/{}")
    deleted = call.api.delete(path + ("?permanent=true" if permanent else ""), *names)
    numbers = deleted if isinstance(deleted, list) else [deleted]
    call.show({"subject": subject, "deleted": numbers, "permanent": permanent})


@command(app, "config")
def configure_level(
    call: Call, subject: ScopeArgument = None, value: SetOption = None, unset: UnsetOption = False
) -> None:
    """Show or set a compatibility level: BACKWARD, FORWARD, FULL, each _TRANSITIVE, or NONE."""
    _setting(call, "config", subject, value, unset)


@command(app, "mode")
def configure_mode(
    call: Call, subject: ScopeArgument = None, value: SetOption = None, unset: UnsetOption = False
) -> None:
    """Show or set a mode: READWRITE, READONLY or IMPORT."""
    _setting(call, "mode", subject, value, unset)


@command(app, "stats")
def show_stats(call: Call) -> None:
    """Show how much the registry holds."""
    call.show(call.api.get("/schemas/stats"))


def _setting(call: Call, kind: str, subject: str | None, value: str | None, unset: bool) -> None:
    """Show, set or take back a level or a mode."""
    shown, given = ("compatibilityLevel", "compatibility") if kind == "config" else (kind, kind)
    path, names = (f"/{kind}", ()) if subject is None else (f"/{kind}/{{}}", (subject,))
    if value is not None and unset:
        raise UsageError("--set and --unset are two things: say one of them")
    if value is not None:
        call.api.put(path, *names, body={given: value})
    elif unset:
        call.api.delete(path, *names)
    query = {} if subject is None else {"defaultToGlobal": "true"}
    found = call.api.get(path, *names, **query)
    call.show({"subject": subject, given: found[shown]})


def _body(file: Path, kind: str | None, references: list[str] | None) -> dict[str, Any]:
    kind = kind or _TYPES.get(file.suffix)
    if kind is None:
        raise UsageError(f"of which type is {file}? Say --type AVRO, JSON or PROTOBUF")
    try:
        text = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{file} cannot be read: {error}") from error
    return {
        "schema": text,
        "schemaType": kind.upper(),
        "references": [_reference(each) for each in references or ()],
    }


def _reference(text: str) -> dict[str, Any]:
    name, _, target = text.rpartition("=")
    subject, _, version = target.rpartition(":")
    if not name or not subject or not version.isdigit():
        raise UsageError(f"--reference: {text!r} is none; expected NAME=SUBJECT:N")
    return {"name": name, "subject": subject, "version": int(version)}
