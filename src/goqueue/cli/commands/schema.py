"""`goqueue schema`: list, register, check and delete schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import quote

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.completion import subject_names
from goqueue.cli.errors import CliError, UsageError
from goqueue.protocols.http.schemas.schema_shapes import (
    LevelOut,
    ModeOut,
    Registered,
    RegistryStats,
    SchemaOut,
    Verdict,
    VersionOut,
)

app = typer.Typer(no_args_is_help=True, help="Register, show and delete schemas.")

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
        help="The subject. (default: the global level or mode)",
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
        help="NAME in the schema refers to version N of SUBJECT; repeatable.",
    ),
]
NormalizeOption: TypeAlias = Annotated[
    bool, typer.Option("--normalize", help="Normalise the schema before it is registered.")
]
SetOption: TypeAlias = Annotated[
    str | None, typer.Option("--set", metavar="VALUE", help="The new value.")
]
UnsetOption: TypeAlias = Annotated[
    bool, typer.Option("--unset", help="Reset to the global value, or to the default.")
]

_TYPES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_MANY: Final = 100_000


@command(app, "list")
def list_subjects(
    call: Call,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="Only subjects with this prefix.")
    ] = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Include soft-deleted subjects.")
    ] = False,
) -> None:
    """List all subjects with their latest versions."""
    versions: dict[str, list[VersionOut]] = {}
    for each in _versions(call, prefix, deleted=deleted):
        versions.setdefault(each.subject, []).append(each)
    call.show(
        [
            {
                "subject": name,
                "latest": found[-1].version,
                "id": found[-1].id,
                "type": found[-1].schema_type,
                "versions": len(found),
                "deleted": all(each.deleted for each in found),
            }
            for name, found in versions.items()
        ],
        empty="no subjects: `goqueue schema register SUBJECT FILE` registers a schema",
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
        int | None,
        typer.Option("--id", metavar="ID", help="The id of a schema, instead of a subject."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the schema and nothing else.")] = False,
) -> None:
    """Show a version of a subject, or a schema by its id."""
    if (subject is None) == (schema_id is None):
        raise UsageError("expected a subject or --id")
    found: SchemaOut | VersionOut
    if subject is None:
        found = call.api.get(SchemaOut, "/schemas/ids/{}", schema_id)
    else:
        found = call.api.get(VersionOut, "/subjects/{}/versions/{}", subject, version)
    if raw:
        typer.echo(found.schema)
    else:
        call.show(found)


@command(app, "versions")
def list_versions(call: Call, subject: SubjectArgument) -> None:
    """List the versions of a subject, including deleted ones."""
    rows = [
        {
            "version": each.version,
            "id": each.id,
            "type": each.schema_type,
            "deleted": each.deleted,
        }
        for each in _versions(call, subject, deleted=True)
        if each.subject == subject
    ]
    if not rows:
        call.api.get(list[int], "/subjects/{}/versions", subject)  # the server says it better
    call.show(rows)


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
    """Register a schema as the next version of a subject."""
    path = "/subjects/{}/versions" + ("?normalize=true" if normalize else "")
    call.show(call.api.post(Registered, path, subject, body=_body(file, kind, references)))


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
            help="Check against this version only (default: as the compatibility level says).",
        ),
    ] = None,
    kind: TypeOption = None,
    references: ReferenceOption = None,
) -> None:
    """Check whether a schema is compatible; the exit code is 1 if it is not."""
    body = _body(file, kind, references)
    names = (subject,) if version is None else (subject, version)
    path = "/compatibility/subjects/{}/versions" + ("" if version is None else "/{}")
    verdict = call.api.post(Verdict, f"{path}?verbose=true", *names, body=body)
    is_compatible, problems = verdict.is_compatible, verdict.messages
    call.show(
        {"compatible": is_compatible, "problems": problems},
        {"compatible": is_compatible, "problems": [{"problem": each} for each in problems]},
    )
    if not is_compatible:
        raise typer.Exit(1)


@command(app, "delete")
def delete_schema(
    call: Call,
    subject: SubjectArgument,
    *,
    version: Annotated[
        str | None,
        typer.Option("--version", "-v", metavar="N", help="Only this version (default: all)."),
    ] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Delete permanently; only after a soft delete.")
    ] = False,
    force: ForceOption = False,
) -> None:
    """Delete a subject, or one version of it."""
    what = f"Subject {subject}" if version is None else f"Version {version} of subject {subject}"
    confirm(f"{what} will be deleted{' permanently' if permanent else ''}.", force=force)
    query = {"permanent": "true" if permanent else None}
    if version is None:
        numbers = call.api.delete(list[int], "/subjects/{}", subject, **query)
    else:
        path = "/subjects/{}/versions/{}"
        numbers = [call.api.delete(int, path, subject, version, **query)]
    call.show({"subject": subject, "deleted": numbers, "permanent": permanent})


@command(app, "config")
def configure_level(
    call: Call, subject: ScopeArgument = None, value: SetOption = None, unset: UnsetOption = False
) -> None:
    """Show or set a compatibility level: BACKWARD, FORWARD, FULL, each _TRANSITIVE, or NONE."""
    path = _set(call, "/config", "compatibility", subject, value, unset=unset)
    found = call.api.get(LevelOut, path, defaultToGlobal="true")
    call.show({"subject": subject, "compatibility": found.compatibility_level})


@command(app, "mode")
def configure_mode(
    call: Call, subject: ScopeArgument = None, value: SetOption = None, unset: UnsetOption = False
) -> None:
    """Show or set a mode: READWRITE, READONLY or IMPORT."""
    path = _set(call, "/mode", "mode", subject, value, unset=unset)
    found = call.api.get(ModeOut, path, defaultToGlobal="true")
    call.show({"subject": subject, "mode": found.mode})


@command(app, "stats")
def show_stats(call: Call) -> None:
    """Show the size of the registry."""
    call.show(call.api.get(RegistryStats, "/schemas/stats"))


def _versions(call: Call, prefix: str | None, *, deleted: bool) -> list[VersionOut]:
    query = {"subjectPrefix": prefix, "deleted": str(deleted).lower(), "limit": _MANY}
    return call.api.get(list[VersionOut], "/schemas", **query)


def _set(
    call: Call, path: str, name: str, subject: str | None, value: str | None, *, unset: bool
) -> str:
    """Set or take back a level or a mode, if asked to; returns where it is."""
    if value is not None and unset:
        raise UsageError("--set and --unset exclude each other: give only one")
    path = path if subject is None else f"{path}/{quote(subject, safe='')}"
    if value is not None:
        call.api.put(dict[str, str], path, body={name: value})
    elif unset:
        call.api.delete(dict[str, str], path)
    return path


def _body(file: Path, kind: str | None, references: list[str] | None) -> dict[str, Any]:
    kind = kind or _TYPES.get(file.suffix)
    if kind is None:
        raise UsageError(f"the type of {file} is unknown: give --type AVRO, JSON or PROTOBUF")
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
        raise UsageError(f"--reference: {text!r} is no reference; expected NAME=SUBJECT:N")
    return {"name": name, "subject": subject, "version": int(version)}
