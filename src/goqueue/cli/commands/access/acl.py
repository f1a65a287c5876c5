"""`goqueue acl`: create, list and delete rules."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.errors import UsageError
from goqueue.protocols.http.access.access_shapes import AclInfo, AclList

app = typer.Typer(no_args_is_help=True, help="Create, list and delete access control lists.")


@command(app, "create")
def create_acls(
    call: Call,
    principal: Annotated[
        str,
        typer.Option(
            "--principal", "-p", metavar="PRINCIPAL", help="User:NAME, User:* or role:NAME."
        ),
    ],
    operation: Annotated[
        list[str],
        typer.Option(
            "--operation",
            metavar="OPERATION",
            help="read, write, create, delete, alter, describe, describe_configs, alter_configs, "
            "cluster_action, idempotent_write or all; repeatable.",
        ),
    ],
    *,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="A topic; * is every topic.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="A group; * is every group.")
    ] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="ID", help="A tenant; * is every tenant.")
    ] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster.")] = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="Every resource whose name starts so.")
    ] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Deny it. (default: allow it)")] = False,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Only from this IP address.")
    ] = "*",
) -> None:
    """Create rules, one for each operation."""
    named = {
        "topic": topic,
        "group": group,
        "transactional_id": transactional_id,
        "tenant": tenant,
        "cluster": "kafka-cluster" if cluster else None,
    }
    chosen = [(kind, name) for kind, name in named.items() if name is not None]
    if len(chosen) != 1:
        raise UsageError(
            "expected one of --topic, --group, --transactional-id, --tenant and --cluster"
        )
    kind, name = chosen[0]
    body = {
        "principal": principal,
        "resource_type": kind,
        "resource_name": name,
        "pattern_type": "prefixed" if prefixed else "literal",
        "operations": [each.lower().replace("-", "_") for each in operation],
        "effect": "deny" if deny else "allow",
        "host": host,
    }
    _show(call, call.api.post(AclList, "/admin/acls", body=body).acls)


@command(app, "list")
def list_acls(
    call: Call,
    principal: Annotated[
        str | None,
        typer.Option(
            "--principal", "-p", metavar="PRINCIPAL", help="Only rules of this principal."
        ),
    ] = None,
    *,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="Only rules that apply to this topic."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="Only rules that apply to this group."),
    ] = None,
) -> None:
    """List rules: all, or those of a principal or about a resource."""
    if topic is not None and group is not None:
        raise UsageError("expected --topic or --group, not both")
    kind = "topic" if topic is not None else "group" if group is not None else None
    found = call.api.get(
        AclList,
        "/admin/acls",
        principal=principal,
        resource_type=kind,
        resource_name=topic if topic is not None else group,
    )
    _show(call, found.acls)


@command(app, "delete")
def delete_acl(
    call: Call,
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="As in acl_5f0c9a7d1e2b3c4d.")],
    force: ForceOption = False,
) -> None:
    """Delete a rule."""
    confirm(f"Rule {rule_id} will be deleted.", force=force)
    deleted = call.api.delete(AclInfo, "/admin/acls/{}", rule_id)
    call.show({"deleted": deleted.id})


def _show(call: Call, rules: list[AclInfo]) -> None:
    call.show(
        [
            {
                "id": each.id,
                "principal": each.principal,
                "effect": each.effect,
                "operation": each.operation,
                "resource": each.resource_type,
                "name": each.resource_name,
                "pattern": each.pattern_type,
                "host": each.host,
            }
            for each in rules
        ],
        empty="no rules: `goqueue acl create` makes one; without rules the roles decide",
    )
