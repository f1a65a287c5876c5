"""`goqueue usage`: what tenants use of their quotas."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.protocols.http.access.usage_shapes import UsageInfo, UsageStats

app = typer.Typer(no_args_is_help=True, help="Show what tenants use of their quotas.")

TenantArgument: TypeAlias = Annotated[str, typer.Argument(metavar="TENANT", help="Its id.")]


class _Names(msgspec.Struct):
    """The topics or the groups of a tenant."""

    topics: list[str] = []
    groups: list[str] = []


@command(app, "show")
def show(call: Call, tenant: TenantArgument) -> None:
    """Show what a tenant has published, consumed and stored, and which quotas it exceeded."""
    call.show(msgspec.to_builtins(call.api.get(UsageInfo, "/admin/tenants/{}/usage", tenant)))


@command(app, "stats")
def stats(call: Call, tenant: TenantArgument) -> None:
    """Show how much of each quota is used."""
    found = call.api.get(UsageStats, "/admin/tenants/{}/stats", tenant)
    call.show(
        [
            {
                "quota": name,
                "used": each.used,
                "limit": each.limit or "unlimited",
                "percent": each.percent,
                "violations": found.violations.get(name, 0),
            }
            for name, each in found.quotas.items()
        ]
    )


@command(app, "reset")
def reset(call: Call, tenant: TenantArgument, force: ForceOption = False) -> None:
    """Count messages, bytes and violations from now on."""
    confirm(f"The usage of tenant {tenant} will be counted from now on.", force=force)
    found = call.api.post(UsageInfo, "/admin/tenants/{}/usage/reset", tenant, body={})
    call.show(msgspec.to_builtins(found))


@command(app, "topics")
def topics(call: Call, tenant: TenantArgument) -> None:
    """List the topics of a tenant, as its clients name them."""
    found = call.api.get(_Names, "/admin/tenants/{}/topics", tenant)
    call.show([{"topic": name} for name in found.topics], empty=f"{tenant} has no topics yet")


@command(app, "groups")
def groups(call: Call, tenant: TenantArgument) -> None:
    """List the groups of a tenant, as its clients name them."""
    found = call.api.get(_Names, "/admin/tenants/{}/groups", tenant)
    call.show([{"group": name} for name in found.groups], empty=f"{tenant} has no groups yet")
