"""Webhook endpoints and their deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import WebhooksDisabledError
from goqueue.model.limits import MAX_VISIBILITY_MS
from goqueue.protocols.http.api.codecs import duration_ms
from goqueue.protocols.http.api.places import LOCAL, At, Selector, group_named
from goqueue.protocols.http.api.rights import ALTER, on_cluster
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.webhooks.webhook_shapes import (
    DeadEventInfo,
    DeadEventList,
    DeliveryInfo,
    DeliveryList,
    PageQuery,
    RedeliverBody,
    Redelivered,
    WebhookBody,
    WebhookChanges,
    WebhookDeleted,
    WebhookInfo,
    WebhookList,
    WebhookPath,
    WebhookSecret,
)
from goqueue.protocols.lookups import group_lookup
from goqueue.queues.delivery.group import REDRIVE_GROUP, WEBHOOK_GROUP_PREFIX

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.http.api.places import Arguments
    from goqueue.protocols.lookups import Lookup
    from goqueue.webhooks.endpoints import Endpoint
    from goqueue.webhooks.history import PastAttempt
    from goqueue.webhooks.service import Webhooks

_TAG: Final = "webhooks"
_NEEDS: Final = on_cluster(ALTER)
_DURATIONS: Final = ("timeout", "backoff", "max_backoff")


async def _locate(broker: Broker, arguments: Arguments) -> Lookup:
    return group_lookup(broker, WEBHOOK_GROUP_PREFIX + arguments["path"].id)


_WHERE_IT_IS_DELIVERED: Final = At(_locate, Selector("path.id"))
"""The coordinator of the webhook's group, which calls the target."""
_WHERE_LETTERS_ARE: Final = group_named(REDRIVE_GROUP)
"""The node that knows which dead events were redelivered."""


class WebhookRoutes(BrokerRoutes):
    """Webhooks."""

    @property
    def _webhooks(self) -> Webhooks:
        found = self._broker.webhooks
        if found is None:
            raise WebhooksDisabledError(
                "webhooks are off on this server: set webhooks.enabled (GOQUEUE_WEBHOOKS_ENABLED)"
            )
        return found

    @route("POST", "/admin/webhooks", tag=_TAG, right=_NEEDS, status=201, place=LOCAL)
    async def create(self, body: WebhookBody) -> WebhookSecret:
        """Create a webhook. The response is the only one that shows its secret."""
        chosen = {
            "events": tuple(dict.fromkeys(body.events)),
            "topics": tuple(dict.fromkeys(body.topics)),
            "description": body.description,
            "is_enabled": body.enabled,
            "max_retries": body.max_retries,
            **_durations(body),
        }
        made = await self._webhooks.administration.create(body.url, body.secret, chosen)
        return WebhookSecret(secret=made.endpoint.secret, **_parts(made.id, made.endpoint))

    @route("GET", "/admin/webhooks", tag=_TAG, right=_NEEDS, place=LOCAL)
    async def all(self) -> WebhookList:
        """List the webhooks, without their secrets."""
        found = self._webhooks.endpoints.all.items()
        ordered = sorted(found, key=lambda item: (item[1].created_ms, item[0]))
        return WebhookList([WebhookInfo(**_parts(*each)) for each in ordered])

    @route("GET", "/admin/webhooks/{id}", tag=_TAG, right=_NEEDS, place=LOCAL)
    async def show(self, path: WebhookPath) -> WebhookInfo:
        """Show a webhook."""
        return WebhookInfo(**_parts(path.id, self._webhooks.administration.get(path.id)))

    @route("PATCH", "/admin/webhooks/{id}", tag=_TAG, right=_NEEDS, place=LOCAL)
    async def change(self, path: WebhookPath, body: WebhookChanges) -> WebhookSecret:
        """Change a webhook; events that wait follow at once."""
        said: dict[str, Any] = {
            "url": body.url,
            "events": None if body.events is None else tuple(dict.fromkeys(body.events)),
            "topics": None if body.topics is None else tuple(dict.fromkeys(body.topics)),
            "secret": body.secret,
            "description": body.description,
            "is_enabled": body.enabled,
            "max_retries": body.max_retries,
            **_durations(body),
        }
        changes = {name: value for name, value in said.items() if value is not None}
        found = await self._webhooks.administration.update(
            path.id, changes, makes_secret=body.new_secret
        )
        is_shown = body.new_secret or body.secret is not None
        return WebhookSecret(secret=found.secret if is_shown else None, **_parts(path.id, found))

    @route("DELETE", "/admin/webhooks/{id}", tag=_TAG, right=_NEEDS, place=LOCAL)
    async def delete(self, path: WebhookPath) -> WebhookDeleted:
        """Delete a webhook, with the events that wait for it."""
        await self._webhooks.administration.delete(path.id)
        return WebhookDeleted(path.id)

    @route(
        "POST",
        "/admin/webhooks/{id}/test",
        tag=_TAG,
        right=_NEEDS,
        place=_WHERE_IT_IS_DELIVERED,
    )
    async def test(self, path: WebhookPath) -> DeliveryInfo:
        """Send a test event now, once, and say what the target answered."""
        webhooks = self._webhooks
        endpoint = webhooks.administration.get(path.id)
        return _delivery(await webhooks.test.run(path.id, endpoint))

    @route(
        "GET",
        "/admin/webhooks/{id}/deliveries",
        tag=_TAG,
        right=_NEEDS,
        place=_WHERE_IT_IS_DELIVERED,
    )
    async def deliveries(self, path: WebhookPath, query: PageQuery) -> DeliveryList:
        """List the last attempts, as the node that delivers remembers them since its start."""
        webhooks = self._webhooks
        webhooks.administration.get(path.id)
        past = webhooks.history.of(path.id)[: query.limit]
        return DeliveryList(path.id, webhooks.pending(path.id), [_delivery(each) for each in past])

    @route("GET", "/admin/webhooks/{id}/dead", tag=_TAG, right=_NEEDS, place=_WHERE_LETTERS_ARE)
    async def dead(self, path: WebhookPath, query: PageQuery) -> DeadEventList:
        """List the events that were given up and not redelivered."""
        webhooks = self._webhooks
        webhooks.administration.get(path.id)
        found = await webhooks.dead.of(path.id, query.limit)
        return DeadEventList(
            path.id,
            [
                DeadEventInfo(event.id, event.type, event.timestamp, died_ms, attempts, error=error)
                for event, died_ms, attempts, error in found
            ],
        )

    @route(
        "POST",
        "/admin/webhooks/{id}/redeliver",
        tag=_TAG,
        right=_NEEDS,
        place=_WHERE_LETTERS_ARE,
    )
    async def redeliver(self, path: WebhookPath, body: RedeliverBody) -> Redelivered:
        """Deliver dead events again, behind those that wait; each keeps its id."""
        webhooks = self._webhooks
        webhooks.administration.get(path.id)
        return Redelivered(path.id, await webhooks.dead.redeliver(path.id, body.events))


def _durations(body: WebhookBody | WebhookChanges) -> dict[str, int | None]:
    """The durations of a body in milliseconds, by the fields of an endpoint."""
    found: dict[str, int | None] = {}
    for name in _DURATIONS:
        value = getattr(body, name)
        if value is not None:
            value = duration_ms(value, name, at_most_ms=MAX_VISIBILITY_MS, location="body")
        found[f"{name}_ms"] = value
    return found


def _parts(endpoint_id: str, endpoint: Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint_id,
        "url": endpoint.url,
        "events": list(endpoint.events),
        "topics": list(endpoint.topics),
        "description": endpoint.description,
        "enabled": endpoint.is_enabled,
        "timeout_ms": endpoint.timeout_ms,
        "max_retries": endpoint.max_retries,
        "backoff_ms": endpoint.backoff_ms,
        "max_backoff_ms": endpoint.max_backoff_ms,
        "created_at": endpoint.created_ms,
    }


def _delivery(past: PastAttempt) -> DeliveryInfo:
    return DeliveryInfo(
        past.event_id,
        past.event_type,
        past.attempt,
        past.at_ms,
        past.outcome.value,
        past.status,
        past.error,
        past.took_ms,
    )
