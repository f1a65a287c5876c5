"""`goqueue key`: create, list and revoke API keys."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm, parse_pairs
from goqueue.cli.output import Format, note
from goqueue.cli.times import show_age
from goqueue.protocols.http.access.access_shapes import KeyCreated, KeyInfo, KeyList

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")

RolesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--role", "-r", metavar="ROLE", help="A role of the key; repeatable."),
]


@command(app, "create")
def create_key(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.")],
    role: RolesOption = None,
    *,
    expires_in: Annotated[
        str | None,
        typer.Option("--expires-in", metavar="DURATION", help="As in 720h. (default: never)"),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="ID", help="Only for this tenant.")
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", metavar="NAME=VALUE", help="A note of your own; repeatable."),
    ] = None,
) -> None:
    """Create an API key. It is shown once."""
    body = {
        "name": name,
        "roles": role or [],
        "expires_in": expires_in,
        "tenant": tenant,
        "metadata": parse_pairs(meta, "--meta"),
    }
    made = call.api.post(KeyCreated, "/admin/keys", body=body)
    call.show(
        {"id": made.id, "key": made.key, "name": made.name, "roles": made.roles},
        {"id": made.id, "key": made.key, "name": made.name, "roles": ", ".join(made.roles)},
    )
    if call.output is Format.TABLE:
        note("Store the key now: it is not shown again.")


@command(app, "list")
def list_keys(call: Call) -> None:
    """List the API keys."""
    found = call.api.get(KeyList, "/admin/keys").keys
    call.show(
        [_row(each) for each in found],
        empty="no API keys: `goqueue key create NAME --role ROLE` creates one",
    )


@command(app, "revoke")
def revoke_key(
    call: Call,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As in key_5f0c9a7d1e2b3c4d.")],
    force: ForceOption = False,
) -> None:
    """Revoke an API key at once. One that is revoked already is deleted."""
    confirm(f"API key {key_id} will be refused from now on.", force=force)
    revoked = call.api.delete(KeyInfo, "/admin/keys/{}", key_id)
    call.show({"revoked": revoked.id, "name": revoked.name})


def _row(key: KeyInfo) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "roles": ", ".join(key.roles),
        "tenant": key.tenant,
        "created": show_age(key.created_at),
        "expires": None if key.expires_at is None else show_age(key.expires_at),
        "last used": None if key.last_used is None else show_age(key.last_used),
        "revoked": key.revoked,
    }
