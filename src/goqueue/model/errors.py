"""One tree of errors. Each class says whether a client may try the same request again.

Protocols map classes to their own codes in one table each; nothing recognises an error by its text.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class GoQueueError(Exception):
    """Everything that this product raises on purpose."""

    retriable: ClassVar[bool] = False
    refused: Mapping[int, str] = MappingProxyType({})
    """Of a batch that was refused because of some of its records: why, by their places in it."""

    def of_records(self, refused: Mapping[int, str]) -> Self:
        """The same error, which names the records that it is about."""
        self.refused = dict(refused)
        return self


# --- Bytes that are not an acceptable record batch ---------------------------------------------


class BatchError(GoQueueError):
    """A record batch cannot be accepted or read."""


class TruncatedBatchError(BatchError):
    """The bytes end before the batch does."""


class ForeignMagicError(BatchError):
    """The bytes are not a batch of magic 2: another format, or not a batch at all."""


class ChecksumMismatchError(BatchError):
    """The CRC32C of a batch does not match its bytes."""


class MalformedBatchError(BatchError):
    """The header of a batch contradicts itself (counts, deltas, lengths)."""


class MalformedRecordError(BatchError):
    """A record inside a batch does not parse."""


class MalformedHeadersError(MalformedRecordError):
    """The headers of a record do not parse, or are larger than the limit."""


class UnknownCompressionError(BatchError):
    """The batch names a compression codec that does not exist."""


class DecompressionError(BatchError):
    """The compressed part of a batch does not decompress, or would grow past the limit."""


class BatchTooLargeError(BatchError):
    """A batch or a record in it is larger than the limit."""


class InvalidTimestampError(BatchError):
    """A record is dated further from the time of its append than its topic allows."""


class PriorityError(BatchError):
    """A priority is not one of the five."""


class DeliveryHeaderError(BatchError):
    """A header that says how a message is to be delivered does not say it."""


# --- Delayed messages ----------------------------------------------------------------------------


class DelayError(GoQueueError):
    """A message cannot be delayed as asked, or there is no such delayed message."""


class DelayTooLongError(DelayError):
    """A message is to be delivered later than the settings allow."""


class DelayDisabledError(DelayError):
    """The topic does not take delayed messages."""


class DelaysUnavailableError(DelayError):
    """Delayed messages are being loaded, or their state could not be stored; try again."""

    retriable = True


class TooManyDelayedError(DelayError):
    """The topic has as many delayed messages waiting as the settings allow."""

    retriable = True


class UnknownDelayedError(DelayError):
    """There is no delayed message of that id in that topic."""


class DelayedNotPendingError(DelayError):
    """The delayed message was delivered or cancelled already."""


# --- The disk ----------------------------------------------------------------------------------


class StorageError(GoQueueError):
    """Something is wrong with stored data or with the disk under it."""


class DiskError(StorageError):
    """The operating system refused an operation on a file."""

    retriable = True


class DiskFullError(DiskError):
    """There is no space left for a write."""


class DiskPermissionError(DiskError):
    """A file or folder may not be read or written by this process."""

    retriable = False


class ForeignFileError(StorageError):
    """A folder of ours holds a file that could be taken for one of ours and is not."""


class UnsupportedFormatError(StorageError):
    """Stored data was written by a newer version, in a format this one does not know."""


# --- One partition's log -----------------------------------------------------------------------


class LogClosedError(StorageError):
    """The log was closed; open it again to use it."""

    retriable = True


class LogFailedError(StorageError):
    """A write or a sync failed earlier; the log refuses appends until it has recovered."""

    retriable = True


class CompactionCancelledError(StorageError):
    """A compaction was called off before it changed anything; a later one does its work."""

    retriable = True


class OffsetOutOfRangeError(StorageError):
    """An offset lies outside what the log holds."""

    def __init__(self, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(
            f"offset {offset} is outside this log: it holds {log_start} up to, not including, "
            f"{log_end}"
        )
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end


class OffsetGapError(StorageError):
    """A follower's append does not continue its log."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"the batch starts at offset {found}, the log ends at {expected}: "
            f"fetch again from {expected}"
        )
        self.expected = expected
        self.found = found


class DamagedRangeError(StorageError):
    """Stored batches are damaged; everything before and after them can still be read."""

    def __init__(self, first: int, resume_at: int, reason: str) -> None:
        super().__init__(
            f"records from offset {first} up to, not including, {resume_at} are damaged on disk "
            f"({reason}); continue reading at {resume_at}"
        )
        self.first = first
        self.resume_at = resume_at
        self.reason = reason


# --- Consumer groups ---------------------------------------------------------------------------


class GroupError(GoQueueError):
    """A group refuses a request. Data that must reach the client with it sits on the error."""


class InvalidGroupIdError(GroupError):
    """A group needs a name that is not empty."""


class InvalidGroupRequestError(GroupError):
    """A request to a group contradicts itself or lacks a field."""


class GroupNotFoundError(GroupError):
    """There is no such group, or it speaks the other membership protocol."""


class NonEmptyGroupError(GroupError):
    """The group still has members; stop them, then try again."""


class GroupSubscribedError(GroupError):
    """Members of the group still read the topic whose offsets were to be deleted."""


class GroupMaxSizeError(GroupError):
    """The group has as many members as the settings allow."""


class TooManyGroupsError(GroupError):
    """The coordinator holds as many groups as the settings allow."""


class InvalidSessionTimeoutError(GroupError):
    """A session timeout lies outside what the settings allow."""


class InconsistentGroupProtocolError(GroupError):
    """A member's protocols share nothing with those of the group."""


class MemberIdRequiredError(GroupError):
    """A new member must join again, with the id that was made for it."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again with the member id {member_id!r}")
        self.member_id = member_id


class UnknownMemberError(GroupError):
    """The group does not know the member: it left, was removed, or never joined."""


class FencedInstanceError(GroupError):
    """Another process has taken over the static member's instance id."""


class UnreleasedInstanceError(GroupError):
    """A live member still holds the instance id."""


class IllegalGenerationError(GroupError):
    """The member speaks for another generation of the group; it must join again."""


class RebalanceInProgressError(GroupError):
    """The group is rebalancing; the member must join again before it goes on."""


class FencedMemberEpochError(GroupError):
    """The member's epoch is not the group's view of it; it gives up its partitions and rejoins."""


class StaleMemberEpochError(GroupError):
    """A commit or fetch names an epoch the member has left; ask again with the newest one."""


class PartitionNotAssignedError(GroupError):
    """A member commits a partition that belongs to another member."""


class InvalidTopologyError(GroupError):
    """A Streams topology contradicts itself, or uses what is not supported."""


class UnsupportedAssignorError(GroupError):
    """The member asks for a server-side assignor that does not exist."""


class InvalidRegularExpressionError(GroupError):
    """A subscription pattern does not compile."""


class OffsetMetadataTooLargeError(GroupError):
    """The text committed with an offset is longer than the settings allow."""


class UnstableOffsetCommitError(GroupError):
    """An open transaction is about to change the offset; ask again when it has ended."""

    retriable = True


class CoordinatorUnavailableError(GroupError):
    """The group's coordinator is starting, stopping or has moved; find it and try again."""

    retriable = True


class CorruptGroupStateError(StorageError):
    """A stored entry of a group does not decode."""


# --- Queue groups ------------------------------------------------------------------------------


class ReceiptError(GoQueueError):
    """A receipt does not entitle to what was asked."""


class MalformedReceiptError(ReceiptError):
    """The text is no receipt."""


class UnknownReceiptError(ReceiptError):
    """No delivery has this receipt: it was used, never given, or expired before a restart."""

    is_done: int = 0
    """1: the message is acknowledged or dead-lettered. Otherwise it is not known to be, and whoever
    asks again because an answer was lost must not take the message for acknowledged."""


class ExpiredReceiptError(ReceiptError):
    """The delivery of this receipt is over: its time ran out, and somebody else may have it."""


class ForeignReceiptError(ReceiptError):
    """The receipt belongs to a delivery to somebody else."""


class RedriveError(GoQueueError):
    """Dead letters cannot be redriven as asked."""


class UnknownRedriveError(RedriveError):
    """There is no such redrive, or not any more."""


class TooManyRedrivesError(RedriveError):
    """As many redrives are under way as may be."""

    retriable = True


class PipelineError(GoQueueError):
    """The report of a pipeline cannot be kept, or there is none."""


class UnknownPipelineError(PipelineError):
    """Nobody has reported of a pipeline of that name, or its report was removed."""


class TooManyPipelinesError(PipelineError):
    """As many pipelines are known as may be: remove those that are not needed any more."""


class PipelinesUnavailableError(PipelineError):
    """The reports of pipelines could not be stored; try again."""

    retriable = True


class GroupModeError(GroupError):
    """The group exists, and its messages are handed out in another way than was asked for."""


class ShareSessionError(GroupError):
    """A share consumer's session is not where its request says."""


class ShareSessionNotFoundError(ShareSessionError):
    """There is no such share session; open another one."""

    retriable = True


class InvalidShareSessionEpochError(ShareSessionError):
    """The request is not the next one of its share session."""

    retriable = True


class CorruptDelayStateError(StorageError):
    """A stored change of delayed messages does not decode."""


class CorruptQueueStateError(StorageError):
    """A stored entry of a queue group does not decode."""


# --- Cluster metadata --------------------------------------------------------------------------


class MetadataError(GoQueueError):
    """The metadata store refuses a request, or cannot answer it."""


class InvalidMetadataRequestError(MetadataError):
    """A key, a value or a transaction is malformed or larger than the limits."""


class MetadataCompactedError(MetadataError):
    """A watcher asks for changes that are no longer kept; it must read everything anew."""

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(
            f"the changes after revision {after} are no longer kept, only those after {oldest}: "
            "read the keys again and watch from the revision of that reading"
        )
        self.after = after
        self.oldest = oldest


class SessionLapsedError(MetadataError):
    """The session has ended and its keys are gone; open another one."""


class MetadataUnavailableError(MetadataError):
    """The metadata store is closed, in use by another process, or stopped after a failed write."""

    retriable = True


class CorruptMetadataError(StorageError):
    """The file that holds the metadata is damaged."""


# --- Topics and partitions ---------------------------------------------------------------------


class TopicError(GoQueueError):
    """Something is wrong with a topic, or with what was asked of it."""


class UnknownTopicError(TopicError):
    """There is no topic of that name."""

    retriable = True


class UnknownTopicIdError(TopicError):
    """There is no topic with that id; it may have been deleted and made again."""

    retriable = True


class InvalidAssignmentError(TopicError):
    """Replicas are to be where they cannot be."""


class UnknownPartitionError(TopicError):
    """The topic has no partition of that number."""

    retriable = True


class TopicExistsError(TopicError):
    """There is already a topic of that name."""


class InvalidTopicNameError(TopicError):
    """A topic's name breaks the rule: 1 to 249 letters, digits, `.`, `_` and `-`."""


class InvalidPartitionCountError(TopicError):
    """A number of partitions that a topic cannot have."""


class InvalidReplicationError(TopicError):
    """More replicas, or other ones, than there are brokers."""


class InvalidTopicConfigError(TopicError):
    """A setting of a topic has no such name or cannot have that value."""


class InvalidBrokerConfigError(GoQueueError):
    """A setting of the broker cannot have that value."""


class ReadOnlyConfigError(InvalidBrokerConfigError):
    """A setting of the broker cannot be changed while it runs."""


class TopicRestoringError(TopicError):
    """The topic is being restored from a backup and takes no messages until that is done."""

    retriable = True


class CompactedTopicError(TopicError):
    """Records of a topic that is only compacted are not removed by offset."""


class InternalTopicError(TopicError):
    """Only the broker itself may change an internal topic."""


class FencedLeaderEpochError(TopicError):
    """The client's view of the leader is older than the broker's."""

    retriable = True


class UnknownLeaderEpochError(TopicError):
    """The client's view of the leader is newer than the broker's."""

    retriable = True


class NotLeaderError(TopicError):
    """The partition is not led by this node: refresh the metadata and ask its leader."""

    retriable = True

    def __init__(self, partition: str, leader: int | None = None, epoch: int = -1) -> None:
        """Name the leader and its epoch, if they are known here; -1 is no epoch."""
        where = "has no leader" if leader is None else f"is led by node {leader} in epoch {epoch}"
        super().__init__(
            f"{partition} is not led by this node and {where}: refresh the metadata and try again"
        )
        self.partition = partition
        self.leader = leader
        self.epoch = epoch


# --- Clusters ----------------------------------------------------------------------------------


class ClusterError(GoQueueError):
    """Nodes of a cluster do not agree, or one cannot do what was asked of it."""


class NotInClusterError(ClusterError):
    """A capability that a cluster does not have yet; one node has it."""


class LeaderUnavailableError(ClusterError):
    """No node leads the partition at the moment; try again once one is elected."""

    retriable = True


class NotEnoughReplicasError(ClusterError):
    """Fewer replicas are in sync than `min.insync.replicas`; nothing was stored."""

    retriable = True


class NotEnoughReplicasAfterAppendError(ClusterError):
    """The batch is in the leader's log, and too few replicas are in sync to commit it."""

    retriable = True


class LeadershipLostError(StorageError):
    """Another node leads the partition now; what was appended last may not be committed."""

    retriable = True


class HandoverUnknownError(StorageError):
    """Messages were sent to a partition, and whether they are stored there is not known yet."""

    retriable = True


class OffsetNotAvailableError(ClusterError):
    """A new leader does not know yet how far its partition is committed."""

    retriable = True


class NotCoordinatorError(ClusterError, CoordinatorUnavailableError):
    """Another node coordinates the group: find the coordinator and ask it."""

    retriable = True


class CoordinatorLoadingError(ClusterError, CoordinatorUnavailableError):
    """This node coordinates the group and is still loading its state."""

    retriable = True


class NotControllerError(ClusterError):
    """Another node is the controller."""

    retriable = True


class StaleNodeError(ClusterError):
    """A node registered anew since it sent this, or is not registered at all."""


class ClusterMismatchError(ClusterError):
    """A node, a folder or an etcd belongs to another cluster, or under another name to this one."""


class PeerUnavailableError(ClusterError):
    """Another node of the cluster cannot be reached, or did not answer in time."""

    retriable = True


class ForwardingBusyError(ClusterError):
    """Requests that wait for other nodes hold as much memory as they may; this one was not sent."""

    retriable = True


class PeerVersionError(ClusterError):
    """A node of another version does not serve what it was asked; upgrade all nodes."""

    retriable = True


class ElectionNotNeededError(ClusterError):
    """The partition is led by its preferred replica, or has a leader where any will do."""


class PreferredLeaderUnavailableError(ClusterError):
    """The preferred replica of a partition is not in sync or not alive."""


class EligibleLeadersUnavailableError(ClusterError):
    """No replica that could lead the partition without a loss is alive."""

    retriable = True


# --- Producers ---------------------------------------------------------------------------------


class ProducerError(GoQueueError):
    """An idempotent producer's batch cannot be taken."""


class OutOfOrderSequenceError(ProducerError):
    """A batch does not follow the last one of its producer."""


class FencedProducerError(ProducerError):
    """A newer instance of the producer has taken over."""


# --- Transactions ------------------------------------------------------------------------------


class TransactionError(ProducerError):
    """A transaction cannot do what was asked of it."""


class InvalidTransactionRequestError(TransactionError):
    """A request to a transaction contradicts itself or lacks a field."""


class InvalidTransactionTimeoutError(TransactionError):
    """A transaction is to be left open for longer than the settings allow, or for no time."""


class InvalidTransactionStateError(TransactionError):
    """The transaction is not open, not for this partition, or decided already."""


class TransactionOpenError(InvalidTransactionStateError):
    """The producer has a transaction open already; it can have one at a time."""


class ConcurrentTransactionsError(TransactionError):
    """The producer's last transaction is still being ended; ask again in a moment."""

    retriable = True


class FencedTransactionError(TransactionError, FencedProducerError):
    """A newer instance with the same transactional id has taken over, or the broker has."""


class UnknownProducerError(TransactionError):
    """The transactional id has no such producer id: it expired, or was never initialised."""


class UnknownTransactionalIdError(TransactionError):
    """There is no such transactional id."""


class TooManyTransactionalIdsError(TransactionError):
    """The coordinator holds as many transactional ids as the settings allow."""


class TransactionCoordinatorUnavailableError(TransactionError):
    """The transaction's state could not be stored, or is still being read; try again."""

    retriable = True


class NotTransactionCoordinatorError(ClusterError, TransactionCoordinatorUnavailableError):
    """Another node coordinates the transactional id: find the coordinator and ask it."""

    retriable = True


class TransactionCoordinatorLoadingError(ClusterError, TransactionCoordinatorUnavailableError):
    """This node coordinates the transactional id and is still loading its state."""

    retriable = True


class FencedCoordinatorError(TransactionError):
    """A marker comes from a coordinator whose successor has ended a transaction there already."""


class CorruptTransactionStateError(StorageError):
    """A stored entry of a transaction does not decode."""


# --- Schemas -----------------------------------------------------------------------------------


class SchemaError(GoQueueError):
    """The schema registry refuses a request."""


class SubjectNotFoundError(SchemaError):
    """There is no such subject."""


class SchemaVersionNotFoundError(SchemaError):
    """The subject has no such version."""


class SchemaNotFoundError(SchemaError):
    """There is no such schema, or none of that id."""


class SubjectSoftDeletedError(SchemaError):
    """The subject was deleted, and can be deleted for good."""


class SubjectNotSoftDeletedError(SchemaError):
    """A subject must be deleted before it can be deleted for good."""


class SchemaVersionSoftDeletedError(SchemaError):
    """The version was deleted, and can be deleted for good."""


class SchemaVersionNotSoftDeletedError(SchemaError):
    """A version must be deleted before it can be deleted for good."""


class CompatibilityNotConfiguredError(SchemaError):
    """The subject has no compatibility level of its own."""


class SchemaModeNotConfiguredError(SchemaError):
    """The subject has no mode of its own."""


class IncompatibleSchemaError(SchemaError):
    """A new version breaks the compatibility that its subject promises."""


class InvalidSchemaError(SchemaError):
    """The text is no schema of its type."""


class InvalidSchemaVersionError(SchemaError):
    """A version is neither a number from 1 on nor `latest`."""


class InvalidCompatibilityError(SchemaError):
    """There is no such compatibility level."""


class InvalidSchemaModeError(SchemaError):
    """There is no such mode."""


class SchemaOperationNotPermittedError(SchemaError):
    """The mode of the subject forbids what was asked."""


class SchemaReferencedError(SchemaError):
    """Other schemas refer to the version; delete them first."""


class SchemaIdMismatchError(SchemaError):
    """A schema cannot be imported under an id that another has."""


class InvalidSubjectError(SchemaError):
    """A subject cannot have that name."""


class SchemaTooLargeError(SchemaError):
    """The text of a schema is longer than the limit."""


class RegistryUnavailableError(SchemaError):
    """The registry's state could not be stored or read; try again."""

    retriable = True


class CorruptSchemaStateError(StorageError):
    """A stored entry of the schema registry does not decode."""


class SchemaValidationError(SchemaError):
    """Messages do not fit the schema of their topic; nothing of their batch was stored."""

    def __init__(self, message: str, refused: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.of_records(refused or {})


# --- Users -------------------------------------------------------------------------------------


class CredentialError(GoQueueError):
    """Something is wrong with a user's keys, or with a login."""


class AuthenticationFailedError(CredentialError):
    """A login failed. The text is for our log; a client is never told which part was wrong."""


class UnacceptableCredentialError(CredentialError):
    """A name, a salt or a number of iterations that no user may have."""


class UnknownCredentialError(CredentialError):
    """The user does not exist, or has no keys for that mechanism."""


class UnsupportedMechanismError(CredentialError):
    """A mechanism that does not exist, or that keys cannot be stored for."""


class TooManyCredentialsError(CredentialError):
    """There are as many users, keys, rules or roles as there may be."""


class UnknownKeyError(CredentialError):
    """There is no API key of that id."""


class UnknownRuleError(CredentialError):
    """There is no rule of that id."""


class UnknownRoleError(CredentialError):
    """There is no role of that name."""


class InvalidRuleError(CredentialError):
    """A rule that cannot be: its principal, resource or operation is none."""


class InvalidRoleError(CredentialError):
    """A role that cannot be: its name or a permission is none, or it is built in."""


class AccessDisabledError(CredentialError):
    """Rules, roles and keys are not checked on this server, so none are stored."""


class AuthorizationFailedError(GoQueueError):
    """The principal may not do this. The text is the same whether or not the object exists."""


class TopicAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on a topic."""


class GroupAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on a group."""


class TransactionalIdAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on a transactional id."""


class ClusterAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on the cluster."""


class TenantError(GoQueueError):
    """Something is wrong with a tenant, or with what was asked of it."""


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


class QuotaExceededError(QuotaError):
    """A tenant has as many of something as it may have."""


class GroupQuotaExceededError(QuotaExceededError):
    """A tenant has as many groups, or a group as many members, as it may have."""


class StorageQuotaExceededError(QuotaExceededError):
    """The topics of a tenant are as large as they may be."""


class CorruptCredentialError(StorageError):
    """The stored keys of a user do not decode."""


# --- Traces --------------------------------------------------------------------------------------


class TraceError(GoQueueError):
    """Something is wrong with what is asked of traces."""


class UnknownTraceError(TraceError):
    """There is no such trace, or not any more."""


class TraceExportError(TraceError):
    """Traces cannot be given to whom they should go to."""


# --- Backups -------------------------------------------------------------------------------------


class BackupError(GoQueueError):
    """A backup cannot be made, read or restored as it was asked for."""


class UnknownBackupError(BackupError):
    """There is no backup and no job with that id."""


class DamagedBackupError(BackupError):
    """A file of a backup is missing, or is not what was written."""


class BackupKeyError(BackupError):
    """The key of an encrypted backup is missing or wrong."""


class BackupBusyError(BackupError):
    """Another job is under way, one at a time."""

    retriable = True


class BackupUnavailableError(BackupError):
    """The destination cannot be read or written now, or a node does not answer."""

    retriable = True


class RestoreConflictError(BackupError):
    """What a backup would restore is in the way of what is there already."""


# --- Webhooks ------------------------------------------------------------------------------------


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


class InvariantError(GoQueueError):
    """A check of our own state failed: a bug, never a user's mistake."""
