"""What a gRPC client is told for each class of error. A test walks the whole tree.

A class that has no line of its own takes the line of its nearest ancestor that has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpc import StatusCode

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping


class InvalidRequestError(GoQueueError):
    """A request that contradicts the contract: a field is missing or out of bounds."""


class ServerStoppingError(GoQueueError):
    """The server ends its streams; connect again."""

    retriable = True


class Told(NamedTuple):
    """The status of a call, the stable code beside it, and when it makes sense to try again."""

    status: StatusCode
    code: int
    retry_after_ms: int = 0


_RECOVERY_MS: Final = 1000
"""After a failed write: about when the broker has tried to recover."""

GRPC_CODES: Final[Mapping[type[GoQueueError], Told]] = {
    GoQueueError: Told(StatusCode.INTERNAL, 500),
    model.InvariantError: Told(StatusCode.INTERNAL, 500),
    # topics and partitions
    model.TopicError: Told(StatusCode.INVALID_ARGUMENT, 103),
    model.UnknownTopicError: Told(StatusCode.NOT_FOUND, 100),
    model.UnknownTopicIdError: Told(StatusCode.NOT_FOUND, 100),
    model.UnknownPartitionError: Told(StatusCode.NOT_FOUND, 101),
    model.InvalidAssignmentError: Told(StatusCode.INVALID_ARGUMENT, 103),
    model.TopicExistsError: Told(StatusCode.ALREADY_EXISTS, 102),
    model.InvalidBrokerConfigError: Told(StatusCode.INVALID_ARGUMENT, 103),
    model.CompactedTopicError: Told(StatusCode.FAILED_PRECONDITION, 103),
    model.InternalTopicError: Told(StatusCode.PERMISSION_DENIED, 103),
    model.FencedLeaderEpochError: Told(StatusCode.ABORTED, 503),
    model.UnknownLeaderEpochError: Told(StatusCode.ABORTED, 503),
    model.NotLeaderError: Told(StatusCode.UNAVAILABLE, 503),
    # groups
    model.GroupError: Told(StatusCode.INVALID_ARGUMENT, 204),
    model.GroupNotFoundError: Told(StatusCode.NOT_FOUND, 200),
    model.UnknownMemberError: Told(StatusCode.NOT_FOUND, 201),
    model.IllegalGenerationError: Told(StatusCode.ABORTED, 202),
    model.FencedMemberEpochError: Told(StatusCode.ABORTED, 202),
    model.StaleMemberEpochError: Told(StatusCode.ABORTED, 202),
    model.RebalanceInProgressError: Told(StatusCode.ABORTED, 202),
    model.FencedInstanceError: Told(StatusCode.ABORTED, 202),
    model.UnreleasedInstanceError: Told(StatusCode.FAILED_PRECONDITION, 202),
    model.PartitionNotAssignedError: Told(StatusCode.PERMISSION_DENIED, 203),
    model.NonEmptyGroupError: Told(StatusCode.FAILED_PRECONDITION, 204),
    model.GroupSubscribedError: Told(StatusCode.FAILED_PRECONDITION, 204),
    model.InconsistentGroupProtocolError: Told(StatusCode.FAILED_PRECONDITION, 204),
    model.GroupMaxSizeError: Told(StatusCode.RESOURCE_EXHAUSTED, 204),
    model.TooManyGroupsError: Told(StatusCode.RESOURCE_EXHAUSTED, 204),
    model.UnstableOffsetCommitError: Told(StatusCode.UNAVAILABLE, 204),
    model.CoordinatorUnavailableError: Told(StatusCode.UNAVAILABLE, 502),
    # messages
    model.BatchError: Told(StatusCode.INVALID_ARGUMENT, 300),
    model.BatchTooLargeError: Told(StatusCode.INVALID_ARGUMENT, 301),
    model.OffsetOutOfRangeError: Told(StatusCode.OUT_OF_RANGE, 302),
    model.OffsetGapError: Told(StatusCode.OUT_OF_RANGE, 302),
    model.DamagedRangeError: Told(StatusCode.DATA_LOSS, 303),
    InvalidRequestError: Told(StatusCode.INVALID_ARGUMENT, 304),
    # delayed messages and receipts
    model.DelayError: Told(StatusCode.INVALID_ARGUMENT, 307),
    model.DelayDisabledError: Told(StatusCode.FAILED_PRECONDITION, 307),
    model.DelaysUnavailableError: Told(StatusCode.UNAVAILABLE, 502, _RECOVERY_MS),
    model.TooManyDelayedError: Told(StatusCode.RESOURCE_EXHAUSTED, 307),
    model.UnknownDelayedError: Told(StatusCode.NOT_FOUND, 307),
    model.DelayedNotPendingError: Told(StatusCode.FAILED_PRECONDITION, 307),
    model.ReceiptError: Told(StatusCode.INVALID_ARGUMENT, 308),
    model.UnknownReceiptError: Told(StatusCode.NOT_FOUND, 308),
    model.ExpiredReceiptError: Told(StatusCode.FAILED_PRECONDITION, 309),
    model.ForeignReceiptError: Told(StatusCode.PERMISSION_DENIED, 309),
    model.RedriveError: Told(StatusCode.INVALID_ARGUMENT, 310),
    model.UnknownRedriveError: Told(StatusCode.NOT_FOUND, 310),
    model.TooManyRedrivesError: Told(StatusCode.RESOURCE_EXHAUSTED, 310),
    model.PipelineError: Told(StatusCode.INVALID_ARGUMENT, 310),
    model.UnknownPipelineError: Told(StatusCode.NOT_FOUND, 310),
    model.TooManyPipelinesError: Told(StatusCode.RESOURCE_EXHAUSTED, 310),
    model.PipelinesUnavailableError: Told(StatusCode.UNAVAILABLE, 502, _RECOVERY_MS),
    model.TraceError: Told(StatusCode.INVALID_ARGUMENT, 311),
    model.UnknownTraceError: Told(StatusCode.NOT_FOUND, 311),
    model.GroupModeError: Told(StatusCode.FAILED_PRECONDITION, 205),
    model.ShareSessionNotFoundError: Told(StatusCode.ABORTED, 202),
    model.InvalidShareSessionEpochError: Told(StatusCode.ABORTED, 202),
    # schemas
    model.SchemaError: Told(StatusCode.INVALID_ARGUMENT, 305),
    model.RegistryUnavailableError: Told(StatusCode.UNAVAILABLE, 502, _RECOVERY_MS),
    model.SchemaValidationError: Told(StatusCode.INVALID_ARGUMENT, 306),
    # producers
    model.ProducerError: Told(StatusCode.INVALID_ARGUMENT, 400),
    model.OutOfOrderSequenceError: Told(StatusCode.FAILED_PRECONDITION, 401),
    model.FencedProducerError: Told(StatusCode.FAILED_PRECONDITION, 402),
    model.TransactionError: Told(StatusCode.INVALID_ARGUMENT, 403),
    model.InvalidTransactionStateError: Told(StatusCode.FAILED_PRECONDITION, 403),
    model.ConcurrentTransactionsError: Told(StatusCode.ABORTED, 403),
    model.FencedTransactionError: Told(StatusCode.FAILED_PRECONDITION, 402),
    model.UnknownProducerError: Told(StatusCode.NOT_FOUND, 400),
    model.UnknownTransactionalIdError: Told(StatusCode.NOT_FOUND, 403),
    model.TooManyTransactionalIdsError: Told(StatusCode.RESOURCE_EXHAUSTED, 403),
    model.TransactionCoordinatorUnavailableError: Told(StatusCode.UNAVAILABLE, 403),
    # the broker
    model.StorageError: Told(StatusCode.INTERNAL, 501),
    model.DiskError: Told(StatusCode.UNAVAILABLE, 501, _RECOVERY_MS),
    model.DiskFullError: Told(StatusCode.RESOURCE_EXHAUSTED, 501, _RECOVERY_MS),
    model.DiskPermissionError: Told(StatusCode.INTERNAL, 501),
    model.LogClosedError: Told(StatusCode.UNAVAILABLE, 501),
    model.LogFailedError: Told(StatusCode.UNAVAILABLE, 501, _RECOVERY_MS),
    model.CompactionCancelledError: Told(StatusCode.UNAVAILABLE, 501),
    model.MetadataError: Told(StatusCode.INTERNAL, 502),
    model.InvalidMetadataRequestError: Told(StatusCode.INVALID_ARGUMENT, 502),
    model.MetadataUnavailableError: Told(StatusCode.UNAVAILABLE, 502),
    ServerStoppingError: Told(StatusCode.UNAVAILABLE, 503),
    # users
    model.CredentialError: Told(StatusCode.INVALID_ARGUMENT, 600),
    model.AuthenticationFailedError: Told(StatusCode.UNAUTHENTICATED, 600),
    model.UnknownCredentialError: Told(StatusCode.NOT_FOUND, 600),
}


def told(error: GoQueueError | type[GoQueueError]) -> Told:
    """What a client is told for this error."""
    kind = error if isinstance(error, type) else type(error)
    return next(GRPC_CODES[each] for each in kind.__mro__ if each in GRPC_CODES)


def to_error(error: GoQueueError) -> pb.Error:
    """An error as the contract has it."""
    line = told(error)
    return pb.Error(
        code=line.code,
        name=type(error).__name__,
        message=str(error),
        retriable=error.retriable,
        retry_after_ms=line.retry_after_ms,
        details={name: str(value) for name, value in vars(error).items()},
    )
