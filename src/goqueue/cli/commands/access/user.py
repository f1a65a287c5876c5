"""`goqueue user`: create, list, change and delete users."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.secrets import ask_secret
from goqueue.protocols.http.access.access_shapes import NameDeleted, UserInfo, UserList

app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete users.")

NameArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
RolesOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--role", "-r", metavar="ROLE", help="A role; repeatable.")
]


@command(app, "list")
def list_users(call: Call) -> None:
    """List users, and other principals that roles were given to."""
    found = call.api.get(UserList, "/admin/users").users
    call.show(
        [_row(each) for each in found],
        empty="no users: `goqueue user create NAME --role ROLE` creates one",
    )


@command(app, "create")
def create_user(
    call: Call,
    name: NameArgument,
    role: RolesOption = None,
    *,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="ID", help="Belongs to this tenant.")
    ] = None,
) -> None:
    """Create a user. The password is asked for, or read from standard input."""
    body = {
        "password": ask_secret("Password", twice=True),
        "roles": role or [],
        "tenant": tenant,
    }
    call.show(_row(call.api.put(UserInfo, "/admin/users/{}", name, body=body)))


@command(app, "password")
def set_password(call: Call, name: NameArgument) -> None:
    """Change the password of a user. It is asked for, or read from standard input."""
    body = {"password": ask_secret("New password", twice=True)}
    call.show(_row(call.api.put(UserInfo, "/admin/users/{}", name, body=body)))


@command(app, "roles")
def set_roles(call: Call, name: NameArgument, role: RolesOption = None) -> None:
    """Set the roles of a user, or of the name in a token or a certificate; none takes them away."""
    body = {"roles": role or []}
    call.show(_row(call.api.put(UserInfo, "/admin/users/{}/roles", name, body=body)))


@command(app, "delete")
def delete_user(call: Call, name: NameArgument, force: ForceOption = False) -> None:
    """Delete a user with its roles."""
    confirm(f"User {name} will be deleted.", force=force)
    call.show({"deleted": call.api.delete(NameDeleted, "/admin/users/{}", name).deleted})


def _row(user: UserInfo) -> dict[str, object]:
    return {
        "name": user.name,
        "logs in by": ", ".join(user.mechanisms) or "token or certificate",
        "roles": ", ".join(user.roles),
        "tenant": user.tenant,
    }
