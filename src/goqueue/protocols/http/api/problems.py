"""What a client is told when something went wrong: one table, and the shape of RFC 9457.

A class of error that has no line of its own takes that of its nearest ancestor which has one. A
test holds the table against the whole tree.
"""

from __future__ import annotations

import math
import re
from http import HTTPStatus
from typing import Final

import msgspec

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.http.api import errors as http
from goqueue.protocols.http.api.responses import PROBLEM, Response


class Kind(NamedTuple):
    """How one class of error looks from outside; `field` is the part of a request it is about."""

    status: int
    code: str
    field: str | None = None


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error (RFC 9457): a text for people and a stable code for programs."""

    title: str
    status: int
    detail: str
    error: str
    """The same as `detail`."""
    code: str
    """Stable: programs may rely on it."""
    retriable: bool
    """Whether the same request may succeed later."""
    type: str | msgspec.UnsetType = msgspec.UNSET
    field: str | None = None
    """The field at fault, as in `messages[0].partition`."""
    location: str | None = None
    """Where that field is: body, query or path."""
    expected: str | None = None
    request_id: str | None = None


_SERVER_FAULT: Final = Kind(500, "internal_error")

PROBLEMS: Final[dict[type[GoQueueError], Kind]] = {
    GoQueueError: _SERVER_FAULT,
    model.InvariantError: _SERVER_FAULT,
    # requests that never reach the broker
    http.HttpError: Kind(400, "bad_request"),
    http.MalformedRequestError: Kind(400, "malformed_request"),
    http.NoSuchPathError: Kind(404, "no_such_path"),
    http.MethodNotAllowedError: Kind(405, "method_not_allowed"),
    http.ForeignHostError: Kind(403, "foreign_host"),
    http.ForeignOriginError: Kind(403, "foreign_origin"),
    http.CsrfTokenError: Kind(403, "csrf_token_required"),
    http.HttpOnlyError: Kind(400, "http_only"),
    http.UnsupportedMediaTypeError: Kind(415, "unsupported_media_type"),
    http.MalformedBodyError: Kind(400, "malformed_body"),
    http.FieldError: Kind(400, "invalid_field"),
    http.AtFieldError: Kind(400, "invalid_field"),  # its cause says it better
    http.BodyTooLargeError: Kind(413, "body_too_large"),
    http.HeadTooLargeError: Kind(431, "head_too_large"),
    http.RequestTimeoutError: Kind(408, "request_timeout"),
    http.DeadlineExceededError: Kind(504, "deadline_exceeded"),
    http.OverloadedError: Kind(503, "overloaded"),
    http.StoppingError: Kind(503, "not_ready"),
    http.UnavailableError: Kind(503, "unavailable"),
    # messages
    model.BatchError: Kind(400, "invalid_message", "messages"),
    model.TruncatedBatchError: Kind(400, "truncated_batch", "messages"),
    model.ForeignMagicError: Kind(400, "foreign_format", "messages"),
    model.ChecksumMismatchError: Kind(400, "checksum_mismatch", "messages"),
    model.MalformedBatchError: Kind(400, "malformed_batch", "messages"),
    model.MalformedRecordError: Kind(400, "malformed_message", "messages"),
    model.MalformedHeadersError: Kind(400, "malformed_headers", "headers"),
    model.UnknownCompressionError: Kind(400, "unknown_compression", "messages"),
    model.DecompressionError: Kind(400, "decompression_failed", "messages"),
    model.BatchTooLargeError: Kind(413, "message_too_large", "value"),
    model.InvalidTimestampError: Kind(400, "invalid_timestamp", "timestamp"),
    model.PriorityError: Kind(400, "invalid_priority", "priority"),
    model.DeliveryHeaderError: Kind(400, "invalid_delivery_header", "headers"),
    # delayed messages
    model.DelayError: Kind(400, "delay_refused", "deliver_at"),
    model.DelayTooLongError: Kind(400, "delay_too_long", "deliver_at"),
    model.DelayDisabledError: Kind(409, "delay_disabled", "deliver_at"),
    model.DelaysUnavailableError: Kind(503, "delays_unavailable"),
    model.TooManyDelayedError: Kind(429, "too_many_delayed", "deliver_at"),
    model.UnknownDelayedError: Kind(404, "unknown_delayed", "offset"),
    model.DelayedNotPendingError: Kind(409, "delayed_not_pending", "offset"),
    # queue groups
    model.ReceiptError: Kind(400, "receipt_refused", "receipt_handle"),
    model.MalformedReceiptError: Kind(400, "malformed_receipt", "receipt_handle"),
    model.UnknownReceiptError: Kind(404, "unknown_receipt", "receipt_handle"),
    model.ExpiredReceiptError: Kind(409, "expired_receipt", "receipt_handle"),
    model.ForeignReceiptError: Kind(409, "foreign_receipt", "receipt_handle"),
    model.RedriveError: Kind(400, "redrive_refused"),
    model.UnknownRedriveError: Kind(404, "unknown_redrive", "id"),
    model.TooManyRedrivesError: Kind(429, "too_many_redrives"),
    model.BackupError: Kind(400, "backup_refused"),
    model.UnknownBackupError: Kind(404, "unknown_backup", "id"),
    model.DamagedBackupError: Kind(422, "backup_damaged"),
    model.BackupKeyError: Kind(400, "backup_key"),
    model.BackupBusyError: Kind(409, "backup_busy"),
    model.BackupUnavailableError: Kind(503, "backup_unavailable"),
    model.RestoreConflictError: Kind(409, "restore_conflict"),
    model.QuotaError: Kind(403, "quota_exceeded"),
    model.InvalidClientQuotaError: Kind(400, "invalid_quota"),
    model.RateLimitedError: Kind(429, "rate_limited"),
    model.TenantShareExceededError: Kind(429, "tenant_share_exceeded"),
    model.QuotaExceededError: Kind(403, "quota_exceeded"),
    model.GroupQuotaExceededError: Kind(403, "group_quota_exceeded"),
    model.StorageQuotaExceededError: Kind(507, "storage_quota_exceeded"),
    model.WebhookError: Kind(400, "webhook_refused"),
    model.WebhookTargetError: Kind(400, "webhook_target", "url"),
    model.UnknownWebhookError: Kind(404, "unknown_webhook", "id"),
    model.TooManyWebhooksError: Kind(429, "too_many_webhooks"),
    model.WebhooksDisabledError: Kind(409, "webhooks_disabled"),
    model.PipelineError: Kind(400, "pipeline_refused"),
    model.UnknownPipelineError: Kind(404, "unknown_pipeline", "name"),
    model.TooManyPipelinesError: Kind(429, "too_many_pipelines", "name"),
    model.PipelinesUnavailableError: Kind(503, "pipelines_unavailable"),
    model.TraceError: Kind(400, "trace_refused"),
    model.TraceExportError: Kind(500, "trace_export"),
    model.UnknownTraceError: Kind(404, "unknown_trace", "id"),
    model.GroupModeError: Kind(409, "group_mode", "assignment"),
    model.ShareSessionError: Kind(409, "share_session"),
    model.ShareSessionNotFoundError: Kind(404, "share_session_not_found"),
    model.InvalidShareSessionEpochError: Kind(409, "share_session_epoch"),
    model.CorruptQueueStateError: Kind(500, "corrupt_queue_state"),
    model.CorruptDelayStateError: Kind(500, "corrupt_delay_state"),
    # the disk and the logs on it
    model.StorageError: Kind(500, "storage_error"),
    model.DiskError: Kind(503, "disk_error"),
    model.DiskFullError: Kind(507, "disk_full"),
    model.DiskPermissionError: Kind(500, "disk_permission"),
    model.ForeignFileError: Kind(500, "foreign_file"),
    model.UnsupportedFormatError: Kind(500, "unsupported_format"),
    model.LogClosedError: Kind(503, "log_closed"),
    model.LogFailedError: Kind(503, "log_failed"),
    model.CompactionCancelledError: Kind(503, "compaction_cancelled"),
    model.OffsetOutOfRangeError: Kind(416, "offset_out_of_range", "offset"),
    model.OffsetGapError: Kind(409, "offset_gap", "offset"),
    model.DamagedRangeError: Kind(500, "damaged_records"),
    model.CorruptGroupStateError: Kind(500, "corrupt_group_state"),
    model.CorruptMetadataError: Kind(500, "corrupt_metadata"),
    model.CorruptCredentialError: Kind(500, "corrupt_credential"),
    # groups
    model.GroupError: Kind(400, "group_refused"),
    model.InvalidGroupIdError: Kind(400, "invalid_group", "group"),
    model.InvalidGroupRequestError: Kind(400, "invalid_group_request"),
    model.InvalidTopologyError: Kind(400, "invalid_topology"),
    model.GroupNotFoundError: Kind(404, "unknown_group", "group"),
    model.NonEmptyGroupError: Kind(409, "group_not_empty", "group"),
    model.GroupSubscribedError: Kind(409, "group_subscribed", "topic"),
    model.GroupMaxSizeError: Kind(429, "group_full", "group"),
    model.TooManyGroupsError: Kind(429, "too_many_groups", "group"),
    model.InvalidSessionTimeoutError: Kind(400, "invalid_session_timeout", "session_timeout"),
    model.InconsistentGroupProtocolError: Kind(409, "inconsistent_group_protocol", "group"),
    model.MemberIdRequiredError: Kind(400, "member_id_required", "member_id"),
    model.UnknownMemberError: Kind(404, "unknown_member", "member_id"),
    model.FencedInstanceError: Kind(409, "fenced_instance"),
    model.UnreleasedInstanceError: Kind(409, "unreleased_instance"),
    model.IllegalGenerationError: Kind(409, "stale_generation", "generation"),
    model.RebalanceInProgressError: Kind(409, "rebalance_in_progress", "generation"),
    model.FencedMemberEpochError: Kind(409, "fenced_generation", "generation"),
    model.StaleMemberEpochError: Kind(409, "stale_generation", "generation"),
    model.PartitionNotAssignedError: Kind(403, "partition_not_assigned", "offsets"),
    model.UnsupportedAssignorError: Kind(400, "unsupported_assignor", "assignor"),
    model.InvalidRegularExpressionError: Kind(400, "invalid_pattern", "topics"),
    model.OffsetMetadataTooLargeError: Kind(400, "metadata_too_large", "metadata"),
    model.UnstableOffsetCommitError: Kind(503, "unstable_offset"),
    model.CoordinatorUnavailableError: Kind(503, "coordinator_unavailable"),
    # cluster metadata
    model.MetadataError: Kind(500, "metadata_error"),
    model.InvalidMetadataRequestError: Kind(400, "invalid_metadata_request"),
    model.MetadataCompactedError: Kind(410, "metadata_compacted"),
    model.SessionLapsedError: Kind(410, "session_lapsed"),
    model.MetadataUnavailableError: Kind(503, "metadata_unavailable"),
    # topics
    model.TopicError: Kind(400, "topic_refused", "topic"),
    model.UnknownTopicError: Kind(404, "unknown_topic", "topic"),
    model.UnknownTopicIdError: Kind(404, "unknown_topic_id", "topic"),
    model.InvalidAssignmentError: Kind(400, "invalid_replica_assignment", "replica_assignments"),
    model.UnknownPartitionError: Kind(404, "unknown_partition", "partition"),
    model.TopicExistsError: Kind(409, "topic_exists", "name"),
    model.InvalidTopicNameError: Kind(400, "invalid_topic_name", "name"),
    model.InvalidPartitionCountError: Kind(400, "invalid_partition_count", "num_partitions"),
    model.InvalidReplicationError: Kind(400, "invalid_replication", "replicas"),
    model.InvalidTopicConfigError: Kind(400, "invalid_settings", "settings"),
    model.InvalidBrokerConfigError: Kind(400, "invalid_settings", "settings"),
    model.ReadOnlyConfigError: Kind(400, "read_only_setting", "settings"),
    model.CompactedTopicError: Kind(409, "compacted_topic", "topic"),
    model.TopicRestoringError: Kind(503, "topic_restoring", "topic"),
    model.InternalTopicError: Kind(403, "internal_topic", "topic"),
    model.FencedLeaderEpochError: Kind(409, "fenced_leader_epoch"),
    model.UnknownLeaderEpochError: Kind(503, "unknown_leader_epoch"),
    model.NotLeaderError: Kind(503, "not_leader"),
    # clusters
    model.ClusterError: Kind(500, "cluster_error"),
    model.NotInClusterError: Kind(501, "not_in_cluster"),
    model.LeaderUnavailableError: Kind(503, "leader_unavailable"),
    model.NotEnoughReplicasError: Kind(503, "not_enough_replicas"),
    model.NotEnoughReplicasAfterAppendError: Kind(503, "not_enough_replicas_after_append"),
    model.LeadershipLostError: Kind(503, "leadership_lost"),
    model.HandoverUnknownError: Kind(503, "handover_unknown"),
    model.OffsetNotAvailableError: Kind(503, "offset_not_available"),
    model.NotCoordinatorError: Kind(503, "not_coordinator"),
    model.CoordinatorLoadingError: Kind(503, "coordinator_loading"),
    model.NotControllerError: Kind(503, "not_controller"),
    model.StaleNodeError: Kind(409, "stale_node"),
    model.ClusterMismatchError: Kind(409, "cluster_mismatch"),
    model.PeerUnavailableError: Kind(503, "peer_unavailable"),
    model.HandoverUnknownError: Kind(503, "handover_unknown"),
    model.ForwardingBusyError: Kind(503, "forwarding_busy"),
    model.PeerVersionError: Kind(503, "peer_version"),
    model.ElectionNotNeededError: Kind(409, "election_not_needed"),
    model.PreferredLeaderUnavailableError: Kind(409, "preferred_leader_unavailable"),
    model.EligibleLeadersUnavailableError: Kind(503, "eligible_leaders_unavailable"),
    # producers
    model.ProducerError: Kind(400, "producer_refused"),
    model.OutOfOrderSequenceError: Kind(409, "out_of_order_sequence", "sequence"),
    model.FencedProducerError: Kind(409, "fenced_producer", "epoch"),
    # transactions
    model.TransactionError: Kind(400, "transaction_refused"),
    model.InvalidTransactionRequestError: Kind(400, "invalid_transaction_request"),
    model.InvalidTransactionTimeoutError: Kind(
        400, "invalid_transaction_timeout", "transaction_timeout_ms"
    ),
    model.InvalidTransactionStateError: Kind(409, "invalid_transaction_state"),
    model.TransactionOpenError: Kind(409, "transaction_open"),
    model.ConcurrentTransactionsError: Kind(503, "concurrent_transactions"),
    model.FencedTransactionError: Kind(409, "fenced_producer", "epoch"),
    model.UnknownProducerError: Kind(404, "unknown_producer", "producer_id"),
    model.UnknownTransactionalIdError: Kind(404, "unknown_transactional_id", "transactional_id"),
    model.TooManyTransactionalIdsError: Kind(429, "too_many_transactional_ids"),
    model.TransactionCoordinatorUnavailableError: Kind(503, "coordinator_unavailable"),
    model.NotTransactionCoordinatorError: Kind(503, "not_coordinator"),
    model.TransactionCoordinatorLoadingError: Kind(503, "coordinator_loading"),
    model.FencedCoordinatorError: Kind(409, "fenced_coordinator"),
    model.CorruptTransactionStateError: Kind(500, "corrupt_transaction_state"),
    # schemas; Confluent's own codes are in schema_dialect.py
    model.SchemaError: Kind(400, "schema_refused"),
    model.SubjectNotFoundError: Kind(404, "unknown_subject", "subject"),
    model.SchemaVersionNotFoundError: Kind(404, "unknown_schema_version", "version"),
    model.SchemaNotFoundError: Kind(404, "unknown_schema", "schema"),
    model.SubjectSoftDeletedError: Kind(404, "subject_soft_deleted", "subject"),
    model.SubjectNotSoftDeletedError: Kind(404, "subject_not_soft_deleted", "subject"),
    model.SchemaVersionSoftDeletedError: Kind(404, "schema_version_soft_deleted", "version"),
    model.SchemaVersionNotSoftDeletedError: Kind(404, "schema_version_not_soft_deleted", "version"),
    model.CompatibilityNotConfiguredError: Kind(404, "compatibility_not_configured", "subject"),
    model.SchemaModeNotConfiguredError: Kind(404, "schema_mode_not_configured", "subject"),
    model.IncompatibleSchemaError: Kind(409, "incompatible_schema", "schema"),
    model.InvalidSchemaError: Kind(422, "invalid_schema", "schema"),
    model.InvalidSchemaVersionError: Kind(422, "invalid_schema_version", "version"),
    model.InvalidCompatibilityError: Kind(422, "invalid_compatibility", "compatibility"),
    model.InvalidSchemaModeError: Kind(422, "invalid_schema_mode", "mode"),
    model.SchemaOperationNotPermittedError: Kind(422, "schema_operation_not_permitted"),
    model.SchemaReferencedError: Kind(422, "schema_referenced", "version"),
    model.SchemaIdMismatchError: Kind(422, "schema_id_mismatch", "id"),
    model.InvalidSubjectError: Kind(422, "invalid_subject", "subject"),
    model.SchemaTooLargeError: Kind(422, "schema_too_large", "schema"),
    model.RegistryUnavailableError: Kind(503, "registry_unavailable"),
    model.CorruptSchemaStateError: Kind(500, "corrupt_schema_state"),
    model.SchemaValidationError: Kind(400, "schema_validation_failed", "value"),
    # users
    model.CredentialError: Kind(400, "credential_refused"),
    model.AuthenticationFailedError: Kind(401, "authentication_failed"),
    model.ProviderBusyError: Kind(503, "oidc_provider_busy"),
    model.UnacceptableCredentialError: Kind(400, "unacceptable_credential"),
    model.UnknownCredentialError: Kind(404, "unknown_credential"),
    model.TooManyCredentialsError: Kind(429, "too_many_credentials"),
    model.UnknownKeyError: Kind(404, "unknown_key", "id"),
    model.UnknownRuleError: Kind(404, "unknown_acl", "id"),
    model.UnknownRoleError: Kind(404, "unknown_role", "role"),
    model.InvalidRuleError: Kind(400, "invalid_acl"),
    model.InvalidRoleError: Kind(400, "invalid_role", "role"),
    model.AccessDisabledError: Kind(409, "access_disabled"),
    model.AuthorizationFailedError: Kind(403, "authorization_failed"),
    model.TopicAuthorizationFailedError: Kind(403, "topic_authorization_failed"),
    model.GroupAuthorizationFailedError: Kind(403, "group_authorization_failed"),
    model.TransactionalIdAuthorizationFailedError: Kind(
        403, "transactional_id_authorization_failed"
    ),
    model.ClusterAuthorizationFailedError: Kind(403, "cluster_authorization_failed"),
    model.UnsupportedMechanismError: Kind(400, "unsupported_mechanism"),
    # tenants
    model.TenantError: Kind(400, "tenant_refused"),
    model.TenancyDisabledError: Kind(503, "tenancy_disabled"),
    model.UnknownTenantError: Kind(404, "unknown_tenant", "id"),
    model.TenantExistsError: Kind(409, "tenant_exists", "id"),
    model.InvalidTenantError: Kind(400, "invalid_tenant"),
    model.TenantProtectedError: Kind(409, "tenant_protected", "id"),
    model.TenantNotEmptyError: Kind(409, "tenant_not_empty", "id"),
}

_HIDDEN: Final = "the server failed on this request; its log says why"


def kind_of(error: GoQueueError | type[GoQueueError]) -> Kind:
    """The status, code and field that a client is told for this error."""
    kind = error if isinstance(error, type) else type(error)
    return next(PROBLEMS[ancestor] for ancestor in kind.__mro__ if ancestor in PROBLEMS)


def problem_of(error: GoQueueError, request_id: str | None = None) -> Response:
    """The answer to a request that failed."""
    location = expected = None
    place: str | None = None
    if isinstance(error, http.FieldError):
        place, location, expected = error.field, error.location, error.expected
    elif isinstance(error, http.AtFieldError):
        place, location, error = error.field, error.location, error.cause
    status, code, field = kind_of(error)
    detail = _HIDDEN if code == _SERVER_FAULT.code else str(error)
    body = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        error=detail,
        code=code,
        retriable=error.retriable,
        type="about:blank",
        field=place or field,
        location=location,
        expected=expected,
        request_id=request_id,
    )
    return Response(status, msgspec.json.encode(body), PROBLEM, _headers(error, status))


def _headers(error: GoQueueError, status: int) -> tuple[tuple[str, str], ...]:
    if isinstance(error, http.MethodNotAllowedError):
        return (("allow", error.allowed),)
    if status == HTTPStatus.UNAUTHORIZED:
        return (("www-authenticate", 'Bearer realm="goqueue", Basic realm="goqueue"'),)
    if isinstance(error, model.RateLimitedError):
        return (("retry-after", str(math.ceil(error.retry_after_ms / 1000))),)
    if error.retriable and status in {429, 503}:
        return (("retry-after", "1"),)
    return ()


# --- What msgspec says -------------------------------------------------------------------------

_PLACE: Final = re.compile(r" - at (`key` in )?`\$\.?(?P<path>[^`]*)`$")
_NAMED: Final = re.compile(r"field `(?P<name>[^`]*)`")
_EXPECTED: Final = re.compile(r"^Expected (?P<what>.*?)(, got (?P<got>.*))?$", re.DOTALL)


def field_error(error: msgspec.ValidationError, location: str) -> http.FieldError:
    """The field at fault and what was expected of it, out of msgspec's sentence.

    The library says them in its text only; `test_http_binding` holds every kind of sentence that
    we rely on. One that does not parse is passed on as it is, for the whole of the location.
    """
    text = str(error)
    place = _PLACE.search(text)
    path = place["path"] if place else ""
    sentence = text[: place.start()] if place else text
    if named := _NAMED.search(sentence):
        path = f"{path}.{named['name']}" if path else named["name"]
    expected = _EXPECTED.match(sentence)
    what = expected["what"].replace("`", "") if expected else None
    where = f"{location} field {path!r}" if path else f"the {location}"
    return http.FieldError(
        f"{where}: {_lower_first(sentence.replace('`', ''))}",
        field=path or location,
        location=location,
        expected=what,
    )


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
