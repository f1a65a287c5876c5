"""Webhooks."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


class WebhookError(GoQueueError):
    """A webhook endpoint cannot be as it was asked for."""


class WebhookTargetError(WebhookError):
    """Events may not be sent to that URL, or to the address that its name resolves to."""


class UnknownWebhookError(WebhookError):
    """There is no webhook endpoint of that id."""


class TooManyWebhooksError(WebhookError):
    """There are as many webhook endpoints as there may be."""


class WebhooksDisabledError(WebhookError):
    """Webhooks are off on this server."""
