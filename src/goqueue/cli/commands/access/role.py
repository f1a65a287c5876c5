"""`goqueue role`: list roles, and make own ones."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.protocols.http.access.access_shapes import NameDeleted, RoleInfo, RoleList

app = typer.Typer(no_args_is_help=True, help="List, create and delete roles.")

NameArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The role.")]


@command(app, "list")
def list_roles(call: Call) -> None:
    """List the roles, and what each allows."""
    roles = call.api.get(RoleList, "/admin/roles").roles
    call.show(
        [
            {
                "name": each.name,
                "built in": each.built_in,
                "permissions": ", ".join(each.permissions),
                "description": each.description,
            }
            for each in roles
        ]
    )


@command(app, "set")
def set_role(
    call: Call,
    name: NameArgument,
    permission: Annotated[
        list[str],
        typer.Option(
            "--permission",
            metavar="PERMISSION",
            help="As in topic:list, message:publish or metrics:read; repeatable.",
        ),
    ],
    description: Annotated[
        str, typer.Option("--description", metavar="TEXT", help="What the role is for.")
    ] = "",
) -> None:
    """Create a role, or replace what it allows."""
    body = {"permissions": permission, "description": description}
    made = call.api.put(RoleInfo, "/admin/roles/{}", name, body=body)
    call.show({"name": made.name, "permissions": made.permissions})


@command(app, "delete")
def delete_role(call: Call, name: NameArgument, force: ForceOption = False) -> None:
    """Delete a role. Those who have it lose what it allows."""
    confirm(f"Role {name} will be deleted.", force=force)
    call.show({"deleted": call.api.delete(NameDeleted, "/admin/roles/{}", name).deleted})
