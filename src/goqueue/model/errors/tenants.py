"""Tenants and quotas."""

from __future__ import annotations

from typing import Self

from goqueue.model.errors.base import GoQueueError


class TenantError(GoQueueError):
    """A request about a tenant cannot be served."""


class TenancyDisabledError(TenantError):
    """Tenants are switched off on this server."""


class UnknownTenantError(TenantError):
    """There is no tenant of that id."""


class TenantExistsError(TenantError):
    """There is already a tenant of that id."""


class InvalidTenantError(TenantError):
    """A tenant cannot be as it is asked for."""


class TenantProtectedError(TenantError):
    """The tenant is the system's own, or is in a state in which it cannot be changed so."""


class TenantNotEmptyError(TenantError):
    """The tenant still has topics, groups, schemas, users or keys."""


class QuotaError(GoQueueError):
    """A quota of a client or a tenant is used up, or cannot be as it is asked for."""


class InvalidClientQuotaError(QuotaError):
    """There is no such quota, or it cannot have that value."""


class RateLimitedError(QuotaError):
    """More was asked for in a second than a quota allows."""

    retriable = True
    retry_after_ms = 1000
    """When it makes sense to try again."""

    def after(self, retry_after_ms: int) -> Self:
        """The same error, which says when to try again."""
        self.retry_after_ms = retry_after_ms
        return self


class TenantShareExceededError(RateLimitedError):
    """A tenant has half of what the clients of a node share, such as its long polls."""


class QuotaExceededError(QuotaError):
    """A tenant has as many of something as it may have."""


class GroupQuotaExceededError(QuotaExceededError):
    """A tenant has as many groups, or a group as many members, as it may have."""


class StorageQuotaExceededError(QuotaExceededError):
    """The topics of a tenant are as large as they may be."""
