"""What each error code of the Kafka protocol raises here: the class that it had in the broker.

A code that stands for several classes raises what they have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.client.errors import BrokerError
from goqueue.model import errors as model
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.model.errors import GoQueueError

_CLASSES: Final[dict[int, type[GoQueueError]]] = {
    ErrorCode.invalid_record: model.BatchError,
    ErrorCode.corrupt_message: model.ChecksumMismatchError,
    ErrorCode.unsupported_for_message_format: model.ForeignMagicError,
    ErrorCode.unsupported_compression_type: model.UnknownCompressionError,
    ErrorCode.message_too_large: model.BatchTooLargeError,
    ErrorCode.record_list_too_large: model.BatchTooLargeError,
    ErrorCode.invalid_timestamp: model.InvalidTimestampError,
    ErrorCode.invalid_record_state: model.ReceiptError,
    ErrorCode.share_session_not_found: model.ShareSessionNotFoundError,
    ErrorCode.invalid_share_session_epoch: model.InvalidShareSessionEpochError,
    ErrorCode.kafka_storage_error: model.DiskError,
    ErrorCode.offset_out_of_range: model.OffsetOutOfRangeError,
    ErrorCode.invalid_group_id: model.InvalidGroupIdError,
    ErrorCode.group_id_not_found: model.GroupNotFoundError,
    ErrorCode.non_empty_group: model.NonEmptyGroupError,
    ErrorCode.group_subscribed_to_topic: model.GroupSubscribedError,
    ErrorCode.group_max_size_reached: model.GroupMaxSizeError,
    ErrorCode.invalid_session_timeout: model.InvalidSessionTimeoutError,
    ErrorCode.inconsistent_group_protocol: model.InconsistentGroupProtocolError,
    ErrorCode.unknown_member_id: model.UnknownMemberError,
    ErrorCode.fenced_instance_id: model.FencedInstanceError,
    ErrorCode.unreleased_instance_id: model.UnreleasedInstanceError,
    ErrorCode.illegal_generation: model.IllegalGenerationError,
    ErrorCode.rebalance_in_progress: model.RebalanceInProgressError,
    ErrorCode.fenced_member_epoch: model.FencedMemberEpochError,
    ErrorCode.stale_member_epoch: model.StaleMemberEpochError,
    ErrorCode.unsupported_assignor: model.UnsupportedAssignorError,
    ErrorCode.invalid_regular_expression: model.InvalidRegularExpressionError,
    ErrorCode.offset_metadata_too_large: model.OffsetMetadataTooLargeError,
    ErrorCode.unstable_offset_commit: model.UnstableOffsetCommitError,
    ErrorCode.coordinator_not_available: model.CoordinatorUnavailableError,
    ErrorCode.coordinator_load_in_progress: model.CoordinatorUnavailableError,
    ErrorCode.not_coordinator: model.CoordinatorUnavailableError,
    ErrorCode.unknown_topic_or_partition: model.UnknownTopicError,
    ErrorCode.unknown_topic_id: model.UnknownTopicIdError,
    ErrorCode.topic_already_exists: model.TopicExistsError,
    ErrorCode.invalid_topic_exception: model.InvalidTopicNameError,
    ErrorCode.invalid_partitions: model.InvalidPartitionCountError,
    ErrorCode.invalid_replication_factor: model.InvalidReplicationError,
    ErrorCode.invalid_config: model.InvalidTopicConfigError,
    ErrorCode.policy_violation: model.CompactedTopicError,
    ErrorCode.fenced_leader_epoch: model.FencedLeaderEpochError,
    ErrorCode.unknown_leader_epoch: model.UnknownLeaderEpochError,
    ErrorCode.not_leader_or_follower: model.NotLeaderError,
    ErrorCode.out_of_order_sequence_number: model.OutOfOrderSequenceError,
    ErrorCode.invalid_producer_epoch: model.FencedProducerError,
    ErrorCode.invalid_transaction_timeout: model.InvalidTransactionTimeoutError,
    ErrorCode.invalid_txn_state: model.InvalidTransactionStateError,
    ErrorCode.concurrent_transactions: model.ConcurrentTransactionsError,
    ErrorCode.producer_fenced: model.FencedTransactionError,
    ErrorCode.invalid_producer_id_mapping: model.UnknownProducerError,
    ErrorCode.transactional_id_not_found: model.UnknownTransactionalIdError,
    ErrorCode.sasl_authentication_failed: model.AuthenticationFailedError,
}


ELSEWHERE: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
"""Somebody else coordinates, or will."""


class RetriableBrokerError(BrokerError):
    """The broker cannot answer yet; the same request may work a moment later."""

    retriable = True


def error_of(code: int, told: str | None = None) -> GoQueueError:
    """What an error code means, in the broker's own words where it said some."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return BrokerError(told or f"the broker answers error code {code}")
    kind = _CLASSES.get(known)
    if kind is None:
        kind = RetriableBrokerError if known.retriable else BrokerError
    made = kind.__new__(kind)  # some ask for more than a sentence
    Exception.__init__(made, told or f"the broker answers {known.name}")
    return made


def check_code(code: int, what: str, told: str | None = None) -> None:
    """Raise what an error code says of `what`; 0 says nothing."""
    if code:
        raise error_of(code, told or f"{what}: the broker answers {_name(code)}")


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def error_named(name: str | None, told: str | None, code: int = 0) -> GoQueueError:
    """An error whose class the broker has named; the code says more where the name is unknown."""
    kind = getattr(model, name or "", None)
    if not isinstance(kind, type) or not issubclass(kind, model.GoQueueError):
        return error_of(code or int(ErrorCode.unknown_server_error), told)
    made = kind.__new__(kind)  # some ask for more than a sentence
    Exception.__init__(made, told or name)
    return made
