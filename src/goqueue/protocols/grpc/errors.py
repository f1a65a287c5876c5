"""The gRPC status of each class of error. A test walks the whole tree.

A class that has no line of its own takes the line of its nearest ancestor that has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpc import StatusCode

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError
from goqueue.model.tuples import NamedTuple
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping


class InvalidRequestError(GoQueueError):
    """A request that contradicts the contract: a field is missing or out of bounds."""


class ServerStoppingError(GoQueueError):
    """The server ends its streams; connect again."""

    retriable = True


class TooManyWatchersError(GoQueueError):
    """As many streams of health and reflection are open as may be."""

    retriable = True


class GrpcStatus(NamedTuple):
    """The status of a call, the stable code beside it, and when it makes sense to try again."""

    status: StatusCode
    code: int
    retry_after_ms: int = 0


_RECOVERY_MS: Final = 1000
"""After a failed write: about when the broker has tried to recover."""

GRPC_CODES: Final[Mapping[type[GoQueueError], GrpcStatus]] = {
    GoQueueError: GrpcStatus(StatusCode.INTERNAL, 500),
    model.InvariantError: GrpcStatus(StatusCode.INTERNAL, 500),
    # topics and partitions
    model.TopicError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 103),
    model.UnknownTopicError: GrpcStatus(StatusCode.NOT_FOUND, 100),
    model.UnknownTopicIdError: GrpcStatus(StatusCode.NOT_FOUND, 100),
    model.UnknownPartitionError: GrpcStatus(StatusCode.NOT_FOUND, 101),
    model.InvalidAssignmentError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 103),
    model.TopicExistsError: GrpcStatus(StatusCode.ALREADY_EXISTS, 102),
    model.InvalidBrokerConfigError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 103),
    model.CompactedTopicError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 103),
    model.TopicRestoringError: GrpcStatus(StatusCode.UNAVAILABLE, 103),
    model.InternalTopicError: GrpcStatus(StatusCode.PERMISSION_DENIED, 103),
    model.FencedLeaderEpochError: GrpcStatus(StatusCode.ABORTED, 503),
    model.UnknownLeaderEpochError: GrpcStatus(StatusCode.ABORTED, 503),
    model.NotLeaderError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    # clusters
    model.ClusterError: GrpcStatus(StatusCode.INTERNAL, 503),
    model.NotInClusterError: GrpcStatus(StatusCode.UNIMPLEMENTED, 503),
    model.LeaderUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.NotEnoughReplicasError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.NotEnoughReplicasAfterAppendError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.LeadershipLostError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.HandoverUnknownError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.OffsetNotAvailableError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.NotCoordinatorError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.CoordinatorLoadingError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.NotControllerError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.StaleNodeError: GrpcStatus(StatusCode.ABORTED, 503),
    model.ClusterMismatchError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 503),
    model.PeerUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.HandoverUnknownError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.ForwardingBusyError: GrpcStatus(StatusCode.UNAVAILABLE, 503, _RECOVERY_MS),
    model.PeerVersionError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    model.ElectionNotNeededError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 503),
    model.PreferredLeaderUnavailableError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 503),
    model.EligibleLeadersUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    # groups
    model.GroupError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 204),
    model.GroupNotFoundError: GrpcStatus(StatusCode.NOT_FOUND, 200),
    model.UnknownMemberError: GrpcStatus(StatusCode.NOT_FOUND, 201),
    model.IllegalGenerationError: GrpcStatus(StatusCode.ABORTED, 202),
    model.FencedMemberEpochError: GrpcStatus(StatusCode.ABORTED, 202),
    model.StaleMemberEpochError: GrpcStatus(StatusCode.ABORTED, 202),
    model.RebalanceInProgressError: GrpcStatus(StatusCode.ABORTED, 202),
    model.FencedInstanceError: GrpcStatus(StatusCode.ABORTED, 202),
    model.UnreleasedInstanceError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 202),
    model.PartitionNotAssignedError: GrpcStatus(StatusCode.PERMISSION_DENIED, 203),
    model.NonEmptyGroupError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 204),
    model.GroupSubscribedError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 204),
    model.InconsistentGroupProtocolError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 204),
    model.GroupMaxSizeError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 204),
    model.TooManyGroupsError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 204),
    model.UnstableOffsetCommitError: GrpcStatus(StatusCode.UNAVAILABLE, 204),
    model.CoordinatorUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 502),
    # messages
    model.BatchError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 300),
    model.BatchTooLargeError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 301),
    model.OffsetOutOfRangeError: GrpcStatus(StatusCode.OUT_OF_RANGE, 302),
    model.OffsetGapError: GrpcStatus(StatusCode.OUT_OF_RANGE, 302),
    model.DamagedRangeError: GrpcStatus(StatusCode.DATA_LOSS, 303),
    InvalidRequestError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 304),
    # delayed messages and receipts
    model.DelayError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 307),
    model.DelayDisabledError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 307),
    model.DelaysUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 502, _RECOVERY_MS),
    model.TooManyDelayedError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 307),
    model.UnknownDelayedError: GrpcStatus(StatusCode.NOT_FOUND, 307),
    model.DelayedNotPendingError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 307),
    model.ReceiptError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 308),
    model.UnknownReceiptError: GrpcStatus(StatusCode.NOT_FOUND, 308),
    model.ExpiredReceiptError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 309),
    model.ForeignReceiptError: GrpcStatus(StatusCode.PERMISSION_DENIED, 309),
    model.RedriveError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 310),
    model.UnknownRedriveError: GrpcStatus(StatusCode.NOT_FOUND, 310),
    model.TooManyRedrivesError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 310),
    model.BackupError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 310),
    model.UnknownBackupError: GrpcStatus(StatusCode.NOT_FOUND, 310),
    model.DamagedBackupError: GrpcStatus(StatusCode.DATA_LOSS, 310),
    model.BackupKeyError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 310),
    model.BackupBusyError: GrpcStatus(StatusCode.UNAVAILABLE, 310),
    model.BackupUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 310),
    model.RestoreConflictError: GrpcStatus(StatusCode.ALREADY_EXISTS, 310),
    model.WebhookError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 310),
    model.UnknownWebhookError: GrpcStatus(StatusCode.NOT_FOUND, 310),
    model.TooManyWebhooksError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 310),
    model.WebhooksDisabledError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 310),
    model.PipelineError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 310),
    model.UnknownPipelineError: GrpcStatus(StatusCode.NOT_FOUND, 310),
    model.TooManyPipelinesError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 310),
    model.PipelinesUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 502, _RECOVERY_MS),
    model.TraceError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 311),
    model.UnknownTraceError: GrpcStatus(StatusCode.NOT_FOUND, 311),
    model.GroupModeError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 205),
    model.ShareSessionNotFoundError: GrpcStatus(StatusCode.ABORTED, 202),
    model.InvalidShareSessionEpochError: GrpcStatus(StatusCode.ABORTED, 202),
    # schemas
    model.SchemaError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 305),
    model.RegistryUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 502, _RECOVERY_MS),
    model.SchemaValidationError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 306),
    # producers
    model.ProducerError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 400),
    model.OutOfOrderSequenceError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 401),
    model.FencedProducerError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 402),
    model.TransactionError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 403),
    model.InvalidTransactionStateError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 403),
    model.ConcurrentTransactionsError: GrpcStatus(StatusCode.ABORTED, 403),
    model.FencedTransactionError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 402),
    model.UnknownProducerError: GrpcStatus(StatusCode.NOT_FOUND, 400),
    model.UnknownTransactionalIdError: GrpcStatus(StatusCode.NOT_FOUND, 403),
    model.TooManyTransactionalIdsError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 403),
    model.TransactionCoordinatorUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 403),
    model.NotTransactionCoordinatorError: GrpcStatus(StatusCode.UNAVAILABLE, 403),
    model.TransactionCoordinatorLoadingError: GrpcStatus(StatusCode.UNAVAILABLE, 403),
    model.FencedCoordinatorError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 402),
    # the broker
    model.StorageError: GrpcStatus(StatusCode.INTERNAL, 501),
    model.DiskError: GrpcStatus(StatusCode.UNAVAILABLE, 501, _RECOVERY_MS),
    model.DiskFullError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 501, _RECOVERY_MS),
    model.DiskPermissionError: GrpcStatus(StatusCode.INTERNAL, 501),
    model.LogClosedError: GrpcStatus(StatusCode.UNAVAILABLE, 501),
    model.LogFailedError: GrpcStatus(StatusCode.UNAVAILABLE, 501, _RECOVERY_MS),
    model.CompactionCancelledError: GrpcStatus(StatusCode.UNAVAILABLE, 501),
    model.MetadataError: GrpcStatus(StatusCode.INTERNAL, 502),
    model.InvalidMetadataRequestError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 502),
    model.MetadataUnavailableError: GrpcStatus(StatusCode.UNAVAILABLE, 502),
    ServerStoppingError: GrpcStatus(StatusCode.UNAVAILABLE, 503),
    TooManyWatchersError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 503, _RECOVERY_MS),
    # users
    model.CredentialError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 600),
    model.AuthenticationFailedError: GrpcStatus(StatusCode.UNAUTHENTICATED, 600),
    model.ProviderBusyError: GrpcStatus(StatusCode.UNAVAILABLE, 600, _RECOVERY_MS),
    model.UnknownCredentialError: GrpcStatus(StatusCode.NOT_FOUND, 600),
    model.TooManyCredentialsError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 600),
    model.UnknownKeyError: GrpcStatus(StatusCode.NOT_FOUND, 600),
    model.UnknownRuleError: GrpcStatus(StatusCode.NOT_FOUND, 600),
    model.UnknownRoleError: GrpcStatus(StatusCode.NOT_FOUND, 600),
    model.AccessDisabledError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 600),
    model.AuthorizationFailedError: GrpcStatus(StatusCode.PERMISSION_DENIED, 601),
    # tenants
    model.TenantError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 602),
    model.TenancyDisabledError: GrpcStatus(StatusCode.UNAVAILABLE, 602),
    model.UnknownTenantError: GrpcStatus(StatusCode.NOT_FOUND, 602),
    model.TenantExistsError: GrpcStatus(StatusCode.ALREADY_EXISTS, 602),
    model.TenantProtectedError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 602),
    model.TenantNotEmptyError: GrpcStatus(StatusCode.FAILED_PRECONDITION, 602),
    # quotas
    model.QuotaError: GrpcStatus(StatusCode.RESOURCE_EXHAUSTED, 429),
    model.InvalidClientQuotaError: GrpcStatus(StatusCode.INVALID_ARGUMENT, 429),
}


def status_of(error: GoQueueError | type[GoQueueError]) -> GrpcStatus:
    """What a client is told for this error."""
    kind = error if isinstance(error, type) else type(error)
    return next(GRPC_CODES[each] for each in kind.__mro__ if each in GRPC_CODES)


def to_error(error: GoQueueError) -> pb.Error:
    """An error as the contract has it."""
    line = status_of(error)
    retry_after_ms = line.retry_after_ms
    if isinstance(error, model.RateLimitedError):
        retry_after_ms = error.retry_after_ms
    return pb.Error(
        code=line.code,
        name=type(error).__name__,
        message=str(error),
        retriable=error.retriable,
        retry_after_ms=retry_after_ms,
        details={name: str(value) for name, value in vars(error).items()},
    )
