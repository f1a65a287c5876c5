"""What can be in the audit log: the names of events, and one event before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from goqueue.audit.limits import MAX_DETAILS, MAX_TEXT_CHARS


class Event(StrEnum):
    """The name of an event."""

    AUTH_SUCCESS = "auth_success"
    AUTH_FAILURE = "auth_failure"
    AUTH_EXPIRED = "auth_expired"
    SIGNED_OUT = "signed_out"
    USER_CHANGED = "user_changed"
    USER_DELETED = "user_deleted"
    ROLE_CHANGED = "role_changed"
    KEY_CREATED = "key_created"
    KEY_LISTED = "key_listed"
    KEY_REVOKED = "key_revoked"
    ACL_ADDED = "acl_added"
    ACL_REMOVED = "acl_removed"
    ACL_DENIED = "acl_denied"
    TOPIC_CREATED = "topic_created"
    TOPIC_DELETED = "topic_deleted"
    PARTITIONS_ADDED = "partitions_added"
    RECORDS_DELETED = "records_deleted"
    TOPIC_COMPACTED = "topic_compacted"
    CONFIG_CHANGED = "config_changed"
    SCHEMA_REGISTERED = "schema_registered"
    SCHEMA_DELETED = "schema_deleted"
    SCHEMA_CONFIG_CHANGED = "schema_config_changed"
    GROUP_DELETED = "group_deleted"
    OFFSETS_RESET = "offsets_reset"
    OFFSETS_DELETED = "offsets_deleted"
    REDRIVE_STARTED = "redrive_started"
    REDRIVE_CANCELLED = "redrive_cancelled"
    DEAD_LETTERS_PURGED = "dead_letters_purged"
    DEAD_LETTERS_DELETED = "dead_letters_deleted"
    DELAYED_CANCELLED = "delayed_cancelled"
    TRANSACTION_ABORTED = "transaction_aborted"
    PIPELINE_DELETED = "pipeline_deleted"
    BACKUP_CREATED = "backup_created"
    BACKUP_DELETED = "backup_deleted"
    BACKUP_RESTORED = "backup_restored"
    BACKUP_VERIFIED = "backup_verified"
    BACKUP_SCHEDULED = "backup_scheduled"
    WEBHOOK_CREATED = "webhook_created"
    WEBHOOK_CHANGED = "webhook_changed"
    WEBHOOK_DELETED = "webhook_deleted"
    WEBHOOK_TESTED = "webhook_tested"
    WEBHOOK_REDELIVERED = "webhook_redelivered"
    TENANT_CREATED = "tenant_created"
    TENANT_CHANGED = "tenant_changed"
    TENANT_SUSPENDED = "tenant_suspended"
    TENANT_ACTIVATED = "tenant_activated"
    TENANT_DISABLED = "tenant_disabled"
    TENANT_DELETED = "tenant_deleted"
    LEADERS_ELECTED = "leaders_elected"
    REPLICAS_REASSIGNED = "replicas_reassigned"
    MAINTENANCE_RESUMED = "maintenance_resumed"
    AUDIT_STARTED = "audit_started"
    AUDIT_STOPPED = "audit_stopped"
    AUDIT_ROTATED = "audit_rotated"
    AUDIT_DROPPED = "audit_dropped"


class Outcome(StrEnum):
    """How it ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    DENIED = "denied"


NOBODY: Final = ""
"""The principal and the client of what the server does by itself."""


class AuditEvent(msgspec.Struct, frozen=True):
    """One event, as it waits for the writer."""

    time_ms: int
    event: str
    principal: str = NOBODY
    client: str = NOBODY
    resource: str = ""
    outcome: str = Outcome.SUCCESS
    request_id: str = ""
    details: Mapping[str, object] = msgspec.field(default_factory=dict)

    def fields(self) -> dict[str, object]:
        """What a line says, every text within its bound."""
        details = list(self.details.items())[:MAX_DETAILS]
        return {
            "event": _cut(self.event),
            "principal": _cut(self.principal),
            "client": _cut(self.client),
            "resource": _cut(self.resource),
            "outcome": _cut(self.outcome),
            "request_id": _cut(self.request_id),
            "details": {_cut(name): _plain(value) for name, value in details},
        }


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    return _cut(value)


def _cut(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…"
