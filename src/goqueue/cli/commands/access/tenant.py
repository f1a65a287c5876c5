"""`goqueue tenant`: create, list, change, suspend and delete tenants."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm, parse_pairs
from goqueue.cli.times import show_age
from goqueue.protocols.http.access.tenant_shapes import TenantDeleted, TenantInfo, TenantList

app = typer.Typer(no_args_is_help=True, help="Create, list, change, suspend and delete tenants.")

IdArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The tenant, as in acme.")]
DescriptionOption: TypeAlias = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="What it is for.")
]
PublishOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--publish-rate", min=0, help="Messages a second; 0 is unlimited."),
]
ConsumeOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--consume-rate", min=0, help="Messages a second; 0 is unlimited."),
]
StorageOption: TypeAlias = Annotated[
    int | None, typer.Option("--max-storage", min=0, help="Stored bytes; 0 is unlimited.")
]
TopicsOption: TypeAlias = Annotated[
    int | None, typer.Option("--max-topics", min=0, help="Topics; 0 is unlimited.")
]
SizeOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-message-size", min=0, help="Bytes of one message; 0 is unlimited."),
]
MetaOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="NAME=VALUE", help="A note of your own; repeatable."),
]
ReasonOption: TypeAlias = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; its clients are told.")
]


@command(app, "create")
def create_tenant(
    call: Call,
    tenant_id: IdArgument,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="For people.")],
    description: DescriptionOption = None,
    *,
    publish_rate: PublishOption = None,
    consume_rate: ConsumeOption = None,
    max_storage: StorageOption = None,
    max_topics: TopicsOption = None,
    max_message_size: SizeOption = None,
    meta: MetaOption = None,
) -> None:
    """Create a tenant. Quotas that are not named have their defaults."""
    body = {
        "id": tenant_id,
        "name": name,
        "description": description or "",
        "quotas": _quotas(publish_rate, consume_rate, max_storage, max_topics, max_message_size),
        "metadata": parse_pairs(meta, "--meta"),
    }
    _show(call, call.api.post(TenantInfo, "/admin/tenants", body=body))


@command(app, "list")
def list_tenants(
    call: Call,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="active, suspended, disabled or deleting."),
    ] = None,
) -> None:
    """List the tenants."""
    found = call.api.get(TenantList, "/admin/tenants", status=status).tenants
    call.show(
        [_row(each) for each in found], empty="no tenants: `goqueue tenant create ID` creates one"
    )


@command(app, "get")
def get_tenant(call: Call, tenant_id: IdArgument) -> None:
    """Show a tenant with its quotas."""
    _show(call, call.api.get(TenantInfo, "/admin/tenants/{}", tenant_id))


@command(app, "update")
def update_tenant(
    call: Call,
    tenant_id: IdArgument,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="For people.")] = None,
    description: DescriptionOption = None,
    *,
    publish_rate: PublishOption = None,
    consume_rate: ConsumeOption = None,
    max_storage: StorageOption = None,
    max_topics: TopicsOption = None,
    max_message_size: SizeOption = None,
    meta: MetaOption = None,
) -> None:
    """Change what is named of a tenant; the rest stays."""
    body: dict[str, object] = {
        "name": name,
        "description": description,
        "quotas": _quotas(publish_rate, consume_rate, max_storage, max_topics, max_message_size),
        "metadata": parse_pairs(meta, "--meta") if meta else None,
    }
    _show(call, call.api.patch(TenantInfo, "/admin/tenants/{}", tenant_id, body=body))


@command(app, "suspend")
def suspend_tenant(call: Call, tenant_id: IdArgument, reason: ReasonOption) -> None:
    """Refuse what the clients of a tenant publish, consume and change. Its data is kept."""
    path = "/admin/tenants/{}/suspend"
    _show(call, call.api.post(TenantInfo, path, tenant_id, body={"reason": reason}))


@command(app, "activate")
def activate_tenant(call: Call, tenant_id: IdArgument) -> None:
    """Serve the clients of a tenant again."""
    _show(call, call.api.post(TenantInfo, "/admin/tenants/{}/activate", tenant_id, body={}))


@command(app, "disable")
def disable_tenant(call: Call, tenant_id: IdArgument, reason: ReasonOption = "") -> None:
    """Refuse the clients of a tenant altogether. Its data is kept."""
    path = "/admin/tenants/{}/disable"
    _show(call, call.api.post(TenantInfo, path, tenant_id, body={"reason": reason}))


@command(app, "delete")
def delete_tenant(call: Call, tenant_id: IdArgument, force: ForceOption = False) -> None:
    """Delete a tenant: one without topics, groups, schemas, users and keys; with --force any."""
    confirm(f"Tenant {tenant_id} will be deleted.", force=force)
    said = "true" if force else None
    gone = call.api.delete(TenantDeleted, "/admin/tenants/{}", tenant_id, force=said)
    call.show({"tenant": gone.tenant, "status": gone.status})


def _quotas(
    publish_rate: int | None,
    consume_rate: int | None,
    max_storage: int | None,
    max_topics: int | None,
    max_message_size: int | None,
) -> dict[str, int]:
    said = {
        "publish_messages_per_s": publish_rate,
        "consume_messages_per_s": consume_rate,
        "max_storage_bytes": max_storage,
        "max_topics": max_topics,
        "max_message_bytes": max_message_size,
    }
    return {name: value for name, value in said.items() if value is not None}


def _show(call: Call, tenant: TenantInfo) -> None:
    call.show(tenant, {**_row(tenant), "reason": tenant.reason or None, **_quota_rows(tenant)})


def _row(tenant: TenantInfo) -> dict[str, object]:
    return {
        "id": tenant.id,
        "name": tenant.name,
        "status": tenant.status,
        "created": show_age(tenant.created_at),
        "description": tenant.description,
    }


def _quota_rows(tenant: TenantInfo) -> dict[str, object]:
    names = tenant.quotas.__struct_fields__
    return {name: getattr(tenant.quotas, name) or "unlimited" for name in names}
