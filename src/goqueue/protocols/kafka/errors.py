"""Which Kafka error code a client sees for each class of error. A test walks the whole tree.

A class that has no line of its own takes the code of its nearest ancestor that has one, so a new
kind of error is never answered with a code that says something untrue: at worst a vaguer one.
"""

from __future__ import annotations

from typing import Final

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.errors import RequestError

__all__ = [
    "KAFKA_CODES",
    "ErrorCode",
    "FetchSessionNotFoundError",
    "InvalidFetchError",
    "InvalidFetchSessionEpochError",
    "InvalidIsolationLevelError",
    "InvalidRequiredAcksError",
    "ReplicaFetchError",
    "ShareSessionLimitError",
    "UnauthenticatedRequestError",
    "UnsupportedRequestError",
    "UnsupportedResourceError",
    "code_for",
]


class UnsupportedRequestError(RequestError):
    """No handler serves this API, or this version of it."""


class UnauthenticatedRequestError(RequestError):
    """An API was called before the connection said who it is."""


class FetchSessionNotFoundError(GoQueueError):
    """The session was forgotten; the client starts a new one."""

    retriable = True


class InvalidFetchSessionEpochError(GoQueueError):
    """A request of the session got lost or came twice; the client starts a new one."""

    retriable = True


class InvalidFetchError(GoQueueError):
    """A Fetch asks for more partitions than one may read."""


class ShareSessionLimitError(GoQueueError):
    """There are as many share sessions as there may be; the client tries again later."""

    retriable = True


class UnsupportedResourceError(GoQueueError):
    """Settings were asked for of something that has none."""


class InvalidRequiredAcksError(GoQueueError):
    """A producer asks for acknowledgements of a kind that does not exist."""


class ReplicaFetchError(GoQueueError):
    """A Fetch says that it is a follower's, on a listener for clients."""


class InvalidIsolationLevelError(GoQueueError):
    """A reader asks for an isolation level that does not exist."""


KAFKA_CODES: Final[dict[type[GoQueueError], ErrorCode]] = {
    GoQueueError: ErrorCode.unknown_server_error,
    model.InvariantError: ErrorCode.unknown_server_error,
    # what a producer sent
    model.BatchError: ErrorCode.invalid_record,
    model.TruncatedBatchError: ErrorCode.corrupt_message,
    model.ForeignMagicError: ErrorCode.unsupported_for_message_format,
    model.ChecksumMismatchError: ErrorCode.corrupt_message,
    model.MalformedBatchError: ErrorCode.invalid_record,
    model.MalformedRecordError: ErrorCode.invalid_record,
    model.MalformedHeadersError: ErrorCode.invalid_record,
    model.UnknownCompressionError: ErrorCode.unsupported_compression_type,
    model.DecompressionError: ErrorCode.corrupt_message,
    model.BatchTooLargeError: ErrorCode.message_too_large,
    model.InvalidTimestampError: ErrorCode.invalid_timestamp,
    model.PriorityError: ErrorCode.invalid_record,
    model.DeliveryHeaderError: ErrorCode.invalid_record,
    model.DelayError: ErrorCode.invalid_record,
    model.DelaysUnavailableError: ErrorCode.request_timed_out,
    model.TooManyDelayedError: ErrorCode.throttling_quota_exceeded,
    # queue groups
    model.ReceiptError: ErrorCode.invalid_record_state,
    model.RedriveError: ErrorCode.invalid_request,
    model.TooManyRedrivesError: ErrorCode.throttling_quota_exceeded,
    model.PipelineError: ErrorCode.invalid_request,
    model.BackupError: ErrorCode.invalid_request,
    model.BackupBusyError: ErrorCode.throttling_quota_exceeded,
    model.BackupUnavailableError: ErrorCode.leader_not_available,
    model.WebhookError: ErrorCode.invalid_request,
    model.TooManyPipelinesError: ErrorCode.throttling_quota_exceeded,
    model.PipelinesUnavailableError: ErrorCode.request_timed_out,
    model.TraceError: ErrorCode.invalid_request,
    model.GroupModeError: ErrorCode.inconsistent_group_protocol,
    model.ShareSessionError: ErrorCode.invalid_share_session_epoch,
    model.ShareSessionNotFoundError: ErrorCode.share_session_not_found,
    model.InvalidShareSessionEpochError: ErrorCode.invalid_share_session_epoch,
    # the disk and the log on it
    model.StorageError: ErrorCode.kafka_storage_error,
    model.OffsetOutOfRangeError: ErrorCode.offset_out_of_range,
    model.OffsetGapError: ErrorCode.offset_out_of_range,
    model.DamagedRangeError: ErrorCode.corrupt_message,
    # consumer groups
    model.GroupError: ErrorCode.invalid_request,
    model.InvalidGroupIdError: ErrorCode.invalid_group_id,
    model.InvalidGroupRequestError: ErrorCode.invalid_request,
    model.GroupNotFoundError: ErrorCode.group_id_not_found,
    model.NonEmptyGroupError: ErrorCode.non_empty_group,
    model.GroupSubscribedError: ErrorCode.group_subscribed_to_topic,
    model.GroupMaxSizeError: ErrorCode.group_max_size_reached,
    model.TooManyGroupsError: ErrorCode.group_max_size_reached,
    model.InvalidSessionTimeoutError: ErrorCode.invalid_session_timeout,
    model.InconsistentGroupProtocolError: ErrorCode.inconsistent_group_protocol,
    model.MemberIdRequiredError: ErrorCode.member_id_required,
    model.UnknownMemberError: ErrorCode.unknown_member_id,
    model.FencedInstanceError: ErrorCode.fenced_instance_id,
    model.UnreleasedInstanceError: ErrorCode.unreleased_instance_id,
    model.IllegalGenerationError: ErrorCode.illegal_generation,
    model.RebalanceInProgressError: ErrorCode.rebalance_in_progress,
    model.FencedMemberEpochError: ErrorCode.fenced_member_epoch,
    model.StaleMemberEpochError: ErrorCode.stale_member_epoch,
    model.UnsupportedAssignorError: ErrorCode.unsupported_assignor,
    model.InvalidTopologyError: ErrorCode.streams_invalid_topology,
    model.InvalidRegularExpressionError: ErrorCode.invalid_regular_expression,
    model.OffsetMetadataTooLargeError: ErrorCode.offset_metadata_too_large,
    model.UnstableOffsetCommitError: ErrorCode.unstable_offset_commit,
    model.CoordinatorUnavailableError: ErrorCode.coordinator_not_available,
    # cluster metadata: what a client of ours can do about it is wait
    model.MetadataError: ErrorCode.broker_not_available,
    model.InvalidMetadataRequestError: ErrorCode.invalid_request,
    model.MetadataUnavailableError: ErrorCode.request_timed_out,
    # topics and partitions
    model.TopicError: ErrorCode.invalid_request,
    model.UnknownTopicError: ErrorCode.unknown_topic_or_partition,
    model.UnknownTopicIdError: ErrorCode.unknown_topic_id,
    model.UnknownPartitionError: ErrorCode.unknown_topic_or_partition,
    model.TopicExistsError: ErrorCode.topic_already_exists,
    model.InvalidTopicNameError: ErrorCode.invalid_topic_exception,
    model.InvalidPartitionCountError: ErrorCode.invalid_partitions,
    model.InvalidReplicationError: ErrorCode.invalid_replication_factor,
    model.InvalidTopicConfigError: ErrorCode.invalid_config,
    model.InvalidBrokerConfigError: ErrorCode.invalid_request,
    model.CompactedTopicError: ErrorCode.policy_violation,
    model.TopicRestoringError: ErrorCode.leader_not_available,
    model.InternalTopicError: ErrorCode.invalid_topic_exception,
    model.FencedLeaderEpochError: ErrorCode.fenced_leader_epoch,
    model.UnknownLeaderEpochError: ErrorCode.unknown_leader_epoch,
    model.NotLeaderError: ErrorCode.not_leader_or_follower,
    # clusters
    model.ClusterError: ErrorCode.broker_not_available,
    model.NotInClusterError: ErrorCode.unsupported_version,
    model.LeaderUnavailableError: ErrorCode.leader_not_available,
    model.NotEnoughReplicasError: ErrorCode.not_enough_replicas,
    model.NotEnoughReplicasAfterAppendError: ErrorCode.not_enough_replicas_after_append,
    # Not "not leader", which says that nothing was stored: the batch may be committed after all.
    model.LeadershipLostError: ErrorCode.not_enough_replicas_after_append,
    model.HandoverUnknownError: ErrorCode.not_enough_replicas_after_append,
    model.OffsetNotAvailableError: ErrorCode.offset_not_available,
    model.NotCoordinatorError: ErrorCode.not_coordinator,
    model.CoordinatorLoadingError: ErrorCode.coordinator_load_in_progress,
    model.NotControllerError: ErrorCode.not_controller,
    model.StaleNodeError: ErrorCode.stale_broker_epoch,
    model.PeerUnavailableError: ErrorCode.network_exception,
    model.ForwardingBusyError: ErrorCode.throttling_quota_exceeded,
    model.PeerVersionError: ErrorCode.network_exception,
    model.ClusterMismatchError: ErrorCode.inconsistent_cluster_id,
    model.ElectionNotNeededError: ErrorCode.election_not_needed,
    model.PreferredLeaderUnavailableError: ErrorCode.preferred_leader_not_available,
    model.EligibleLeadersUnavailableError: ErrorCode.eligible_leaders_not_available,
    # producers
    model.ProducerError: ErrorCode.invalid_request,
    model.OutOfOrderSequenceError: ErrorCode.out_of_order_sequence_number,
    model.FencedProducerError: ErrorCode.invalid_producer_epoch,
    # transactions; older versions know a fenced producer by its epoch (transaction_codes.py)
    model.TransactionError: ErrorCode.invalid_request,
    model.InvalidTransactionTimeoutError: ErrorCode.invalid_transaction_timeout,
    model.InvalidTransactionStateError: ErrorCode.invalid_txn_state,
    model.ConcurrentTransactionsError: ErrorCode.concurrent_transactions,
    model.FencedTransactionError: ErrorCode.producer_fenced,
    model.UnknownProducerError: ErrorCode.invalid_producer_id_mapping,
    model.UnknownTransactionalIdError: ErrorCode.transactional_id_not_found,
    model.TooManyTransactionalIdsError: ErrorCode.policy_violation,
    model.TransactionCoordinatorUnavailableError: ErrorCode.coordinator_not_available,
    model.NotTransactionCoordinatorError: ErrorCode.not_coordinator,
    model.TransactionCoordinatorLoadingError: ErrorCode.coordinator_load_in_progress,
    model.FencedCoordinatorError: ErrorCode.transaction_coordinator_fenced,
    # schemas: what a producer sent again, and the registry, which Kafka's protocol cannot ask
    model.SchemaValidationError: ErrorCode.invalid_record,
    model.SchemaError: ErrorCode.invalid_request,
    model.RegistryUnavailableError: ErrorCode.request_timed_out,
    # users
    model.CredentialError: ErrorCode.unacceptable_credential,
    model.AuthenticationFailedError: ErrorCode.sasl_authentication_failed,
    model.ProviderBusyError: ErrorCode.throttling_quota_exceeded,
    model.UnacceptableCredentialError: ErrorCode.unacceptable_credential,
    model.UnknownCredentialError: ErrorCode.resource_not_found,
    model.UnsupportedMechanismError: ErrorCode.unsupported_sasl_mechanism,
    model.QuotaError: ErrorCode.policy_violation,
    model.InvalidClientQuotaError: ErrorCode.invalid_request,
    model.RateLimitedError: ErrorCode.throttling_quota_exceeded,
    model.GroupQuotaExceededError: ErrorCode.group_max_size_reached,
    model.TooManyCredentialsError: ErrorCode.policy_violation,
    model.UnknownKeyError: ErrorCode.resource_not_found,
    model.UnknownRuleError: ErrorCode.resource_not_found,
    model.UnknownRoleError: ErrorCode.resource_not_found,
    model.InvalidRuleError: ErrorCode.invalid_request,
    model.InvalidRoleError: ErrorCode.invalid_request,
    model.AccessDisabledError: ErrorCode.security_disabled,
    model.AuthorizationFailedError: ErrorCode.cluster_authorization_failed,
    model.TopicAuthorizationFailedError: ErrorCode.topic_authorization_failed,
    model.GroupAuthorizationFailedError: ErrorCode.group_authorization_failed,
    model.TransactionalIdAuthorizationFailedError: (
        ErrorCode.transactional_id_authorization_failed
    ),
    model.ClusterAuthorizationFailedError: ErrorCode.cluster_authorization_failed,
    # tenants
    model.TenantError: ErrorCode.invalid_request,
    model.TenancyDisabledError: ErrorCode.security_disabled,
    model.UnknownTenantError: ErrorCode.resource_not_found,
    model.TenantExistsError: ErrorCode.duplicate_resource,
    model.TenantProtectedError: ErrorCode.policy_violation,
    model.TenantNotEmptyError: ErrorCode.policy_violation,
    # requests that only Kafka has
    model.InvalidAssignmentError: ErrorCode.invalid_replica_assignment,
    FetchSessionNotFoundError: ErrorCode.fetch_session_id_not_found,
    InvalidFetchSessionEpochError: ErrorCode.invalid_fetch_session_epoch,
    InvalidFetchError: ErrorCode.invalid_request,
    ShareSessionLimitError: ErrorCode.share_session_limit_reached,
    UnsupportedResourceError: ErrorCode.invalid_request,
    InvalidRequiredAcksError: ErrorCode.invalid_required_acks,
    InvalidIsolationLevelError: ErrorCode.invalid_request,
    ReplicaFetchError: ErrorCode.cluster_authorization_failed,
    # the wire itself
    RequestError: ErrorCode.invalid_request,
    UnsupportedRequestError: ErrorCode.unsupported_version,
    UnauthenticatedRequestError: ErrorCode.illegal_sasl_state,
}
"""Disk and log classes without a line share `StorageError`'s: a client can only try again."""


def code_for(error: GoQueueError | type[GoQueueError]) -> ErrorCode:
    """The code a Kafka client is told for this error."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        code = KAFKA_CODES.get(ancestor)
        if code is not None:
            return code
    return ErrorCode.unknown_server_error
