"""`goqueue webhook`: create, change, test and delete webhooks, and see what they were sent."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.output import Format, note
from goqueue.cli.secrets import ask_secret
from goqueue.cli.times import show_age, show_time
from goqueue.protocols.http.webhooks.webhook_shapes import (
    DeadEventList,
    DeliveryInfo,
    DeliveryList,
    Redelivered,
    WebhookDeleted,
    WebhookInfo,
    WebhookList,
    WebhookSecret,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Create, change, test and delete webhooks, and see what they were sent.",
)

IdArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="As in wh_5f0c9a7d1e2b3c4d.")
]
EventOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--event",
        "-e",
        metavar="TYPE",
        help="Only such events, as topic.created; repeatable. (default: all)",
    ),
]
TopicOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="NAME", help="Only events about this topic; repeatable."),
]
DescriptionOption: TypeAlias = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="What it is for.")
]
TimeoutOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--timeout", metavar="DURATION", help="For a response, as in 5s."),
]
RetriesOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-retries", metavar="N", help="Further attempts before an event is dead-lettered."
    ),
]
BackoffOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--backoff", metavar="DURATION", help="Before the first retry; it doubles."),
]
MaxBackoffOption: TypeAlias = Annotated[
    str | None, typer.Option("--max-backoff", metavar="DURATION", help="The longest back-off.")
]
AskSecretOption: TypeAlias = Annotated[
    bool,
    typer.Option("--ask-secret", help="Read the secret from the terminal or standard input."),
]


@command(app, "create")
def create_webhook(
    call: Call,
    url: Annotated[str, typer.Argument(metavar="URL", help="http or https.")],
    event: EventOption = None,
    topic: TopicOption = None,
    *,
    description: DescriptionOption = None,
    timeout: TimeoutOption = None,
    max_retries: RetriesOption = None,
    backoff: BackoffOption = None,
    max_backoff: MaxBackoffOption = None,
    ask: AskSecretOption = False,
) -> None:
    """Create a webhook. Its secret is made, unless it is asked for, and shown once."""
    said = {
        "url": url,
        "events": event,
        "topics": topic,
        "description": description,
        "timeout": timeout,
        "max_retries": max_retries,
        "backoff": backoff,
        "max_backoff": max_backoff,
        "secret": ask_secret("Secret", twice=True) if ask else None,
    }
    made = call.api.post(WebhookSecret, "/admin/webhooks", body=_said(said))
    _show_secret(call, made)


@command(app, "list")
def list_webhooks(call: Call) -> None:
    """List the webhooks."""
    found = call.api.get(WebhookList, "/admin/webhooks").webhooks
    call.show(
        found,
        [_row(each) for each in found],
        empty="no webhooks: `goqueue webhook create URL` creates one",
    )


@command(app, "get")
def get_webhook(call: Call, webhook_id: IdArgument) -> None:
    """Show a webhook."""
    found = call.api.get(WebhookInfo, "/admin/webhooks/{}", webhook_id)
    call.show(found, _details(found))


@command(app, "update")
def update_webhook(
    call: Call,
    webhook_id: IdArgument,
    *,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Another target.")] = None,
    event: EventOption = None,
    topic: TopicOption = None,
    all_events: Annotated[
        bool, typer.Option("--all-events", help="Every event, about every topic.")
    ] = False,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Deliver events, or keep them.")
    ] = None,
    description: DescriptionOption = None,
    timeout: TimeoutOption = None,
    max_retries: RetriesOption = None,
    backoff: BackoffOption = None,
    max_backoff: MaxBackoffOption = None,
    ask: AskSecretOption = False,
    new_secret: Annotated[
        bool, typer.Option("--new-secret", help="Have another secret made; it is shown once.")
    ] = False,
) -> None:
    """Change a webhook; what is not named stays."""
    if all_events and (event or topic):
        raise UsageError("expected --all-events, or --event and --topic, not both")
    said = {
        "url": url,
        "events": [] if all_events else event,
        "topics": [] if all_events else topic,
        "enabled": enable,
        "description": description,
        "timeout": timeout,
        "max_retries": max_retries,
        "backoff": backoff,
        "max_backoff": max_backoff,
        "secret": ask_secret("Secret", twice=True) if ask else None,
        "new_secret": new_secret or None,
    }
    body = _said(said)
    if not body:
        raise UsageError("nothing to change: name at least one option")
    changed = call.api.patch(WebhookSecret, "/admin/webhooks/{}", webhook_id, body=body)
    if new_secret:
        _show_secret(call, changed)
    else:
        call.show(changed, _details(changed))


@command(app, "delete")
def delete_webhook(call: Call, webhook_id: IdArgument, force: ForceOption = False) -> None:
    """Delete a webhook, with the events that wait for it."""
    confirm(f"Webhook {webhook_id} will be deleted.", force=force)
    deleted = call.api.delete(WebhookDeleted, "/admin/webhooks/{}", webhook_id)
    call.show({"deleted": deleted.deleted})


@command(app, "test")
def test_webhook(call: Call, webhook_id: IdArgument) -> None:
    """Send a test event now, and show what the target answered."""
    found = call.api.post(DeliveryInfo, "/admin/webhooks/{}/test", webhook_id, body={})
    call.show(found, _delivery(found))
    if found.error:
        raise CliError(f"the test event was not delivered: {found.error}")


@command(app, "deliveries")
def list_deliveries(
    call: Call,
    webhook_id: IdArgument,
    *,
    dead: Annotated[
        bool, typer.Option("--dead", help="The events that were given up instead.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, max=1000, help="The maximum number of rows."
        ),
    ] = 20,
) -> None:
    """List the last attempts, the newest first."""
    if dead:
        letters = call.api.get(DeadEventList, "/admin/webhooks/{}/dead", webhook_id, limit=limit)
        dead_rows = [
            {
                "event": each.event,
                "type": each.type,
                "happened": show_age(each.happened_at),
                "dead since": show_age(each.dead_at),
                "attempts": each.attempts,
                "error": each.error,
            }
            for each in letters.events
        ]
        call.show(
            letters, dead_rows, empty="no dead events: every event was delivered or is being tried"
        )
        return
    found = call.api.get(DeliveryList, "/admin/webhooks/{}/deliveries", webhook_id, limit=limit)
    rows = [_delivery(each) for each in found.deliveries]
    call.show(found, rows, empty="no deliveries yet: `goqueue webhook test ID` sends one")
    if found.pending and call.output is Format.TABLE:
        note(f"{found.pending} events wait.")


@command(app, "redeliver")
def redeliver(
    call: Call,
    webhook_id: IdArgument,
    event: Annotated[
        list[str] | None,
        typer.Option("--event", "-e", metavar="ID", help="Only this event; repeatable."),
    ] = None,
) -> None:
    """Deliver dead events again, behind those that wait."""
    body = {} if event is None else {"events": event}
    done = call.api.post(Redelivered, "/admin/webhooks/{}/redeliver", webhook_id, body=body)
    call.show({"webhook": done.webhook, "redelivered": done.events})


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _show_secret(call: Call, webhook: WebhookSecret) -> None:
    call.show({"id": webhook.id, "url": webhook.url, "secret": webhook.secret})
    if call.output is Format.TABLE:
        note("Store the secret now: it is not shown again.")


def _row(webhook: WebhookInfo) -> dict[str, object]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": ", ".join(webhook.events) or "all",
        "topics": ", ".join(webhook.topics) or "all",
        "enabled": webhook.enabled,
        "description": webhook.description,
    }


def _details(webhook: WebhookInfo) -> dict[str, object]:
    return {
        **_row(webhook),
        "timeout": f"{webhook.timeout_ms} ms",
        "max retries": webhook.max_retries,
        "back-off": f"{webhook.backoff_ms} ms to {webhook.max_backoff_ms} ms",
        "created": show_time(webhook.created_at),
    }


def _delivery(found: DeliveryInfo) -> dict[str, object]:
    return {
        "at": show_age(found.at),
        "event": found.event,
        "type": found.type,
        "attempt": found.attempt,
        "outcome": found.outcome,
        "status": found.status,
        "took": f"{found.took_ms} ms",
        "error": found.error,
    }
