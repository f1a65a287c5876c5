"""Nodes of a cluster."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.groups import CoordinatorUnavailableError
from goqueue.model.errors.storage import StorageError


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
