"""`goqueue quota`: show and change the quotas of a tenant."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
import typer

from goqueue.access.tenants.quotas import DEFAULT_QUOTAS
from goqueue.cli.calls import Call, ForceOption, command, confirm

app = typer.Typer(no_args_is_help=True, help="Show and change the quotas of a tenant.")

_PATH: Final = "/admin/tenants/{}/quotas"

TenantArgument: TypeAlias = Annotated[str, typer.Argument(metavar="TENANT", help="Its id.")]


def _option(name: str, what: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(name, min=0, help=f"{what} 0 is unlimited.")
    return found


@command(app, "get")
def get_quotas(call: Call, tenant: TenantArgument) -> None:
    """Show the quotas of a tenant; 0 is unlimited."""
    call.show(call.api.get(dict[str, int], _PATH, tenant))


def set_quotas(
    call: Call,
    tenant: TenantArgument,
    *,
    publish_rate: Annotated[
        int | None, _option("--publish-rate", "Messages published a second.")
    ] = None,
    consume_rate: Annotated[
        int | None, _option("--consume-rate", "Messages consumed a second.")
    ] = None,
    publish_bytes_rate: Annotated[
        int | None, _option("--publish-bytes-rate", "Bytes published a second.")
    ] = None,
    consume_bytes_rate: Annotated[
        int | None, _option("--consume-bytes-rate", "Bytes consumed a second.")
    ] = None,
    request_rate: Annotated[int | None, _option("--request-rate", "Requests a second.")] = None,
    max_storage: Annotated[int | None, _option("--max-storage", "Stored bytes.")] = None,
    max_topics: Annotated[int | None, _option("--max-topics", "Topics.")] = None,
    max_partitions_per_topic: Annotated[
        int | None, _option("--max-partitions-per-topic", "Partitions of a topic.")
    ] = None,
    max_partitions: Annotated[
        int | None, _option("--max-partitions", "Partitions of all topics.")
    ] = None,
    max_message_size: Annotated[
        int | None, _option("--max-message-size", "Bytes of a batch of messages.")
    ] = None,
    max_retention: Annotated[
        int | None, _option("--max-retention", "Milliseconds that messages are kept.")
    ] = None,
    max_delay: Annotated[
        int | None, _option("--max-delay", "Milliseconds that messages are delayed.")
    ] = None,
    max_connections: Annotated[
        int | None, _option("--max-connections", "Connections of Kafka clients.")
    ] = None,
    max_consumer_groups: Annotated[int | None, _option("--max-consumer-groups", "Groups.")] = None,
    consumers_per_group: Annotated[
        int | None, _option("--consumers-per-group", "Members of a group.")
    ] = None,
    max_schemas: Annotated[
        int | None, _option("--max-schemas", "Subjects of the schema registry.")
    ] = None,
) -> None:
    """Change the quotas that are named; the others stay."""
    given = {
        "publish_messages_per_s": publish_rate,
        "consume_messages_per_s": consume_rate,
        "publish_bytes_per_s": publish_bytes_rate,
        "consume_bytes_per_s": consume_bytes_rate,
        "requests_per_s": request_rate,
        "max_storage_bytes": max_storage,
        "max_topics": max_topics,
        "max_partitions_per_topic": max_partitions_per_topic,
        "max_partitions": max_partitions,
        "max_message_bytes": max_message_size,
        "max_retention_ms": max_retention,
        "max_delay_ms": max_delay,
        "max_connections": max_connections,
        "max_groups": max_consumer_groups,
        "max_members_per_group": consumers_per_group,
        "max_schemas": max_schemas,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    quotas = {**call.api.get(dict[str, int], _PATH, tenant), **changes}
    call.show(call.api.put(dict[str, int], _PATH, tenant, body=quotas))


for _name in ("set", "update"):
    command(app, _name)(set_quotas)


@command(app, "reset")
def reset_quotas(call: Call, tenant: TenantArgument, force: ForceOption = False) -> None:
    """Give a tenant the quotas that new ones have."""
    confirm(f"The quotas of tenant {tenant} will be the defaults.", force=force)
    defaults = msgspec.to_builtins(DEFAULT_QUOTAS)
    call.show(call.api.put(dict[str, int], _PATH, tenant, body=defaults))
