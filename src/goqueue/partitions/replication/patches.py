"""Damaged records of a replica, taken from whichever other one has them.

Replicas are the same byte for byte: what another has under the same offsets, written in the same
epochs, is what was there. Nothing else has to be given up for that.
"""

from __future__ import annotations

import logging
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError, GoQueueError, PeerUnavailableError
from goqueue.records.batch import walk
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.cluster.peers import Peers
    from goqueue.cluster.records import PartitionKey
    from goqueue.cluster.view import ClusterView
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.storage.patching import DamagedStretch

logger = logging.getLogger(__name__)

PATCHED_BYTES: Final = 64 * 1024 * 1024
"""A stretch that is larger is cut off and fetched like everything else."""
_HAVE_NOT: Final = frozenset(
    {ErrorCode.none, ErrorCode.corrupt_message, ErrorCode.offset_out_of_range}
)
"""Answers of replicas that certainly do not have it."""


class Outcome(Enum):
    """What became of damaged records."""

    PATCHED = "patched"
    """They are as they were."""
    NOBODY = "nobody"
    """Every replica that was asked has something else there, or nothing."""
    UNKNOWN = "unknown"
    """One that should have been asked did not answer."""


class Patches:
    """Asks the other replicas of a partition, one after the other."""

    def __init__(self, node_id: int, view: ClusterView, peers: Peers) -> None:
        self._node_id = node_id
        self._view = view
        self._peers = peers

    def others(self, key: PartitionKey) -> frozenset[int]:
        """The nodes with other replicas that could be asked now."""
        stored = self._view.partitions.get(key)
        replicas = () if stored is None else stored.value.replicas
        return frozenset(
            each for each in replicas if each != self._node_id and self._view.is_active(each)
        )

    async def attempt(
        self, key: PartitionKey, partition: ReplicatedPartition, first: int
    ) -> Outcome:
        """Put in place what is damaged at an offset."""
        outcome = Outcome.NOBODY
        for node_id in sorted(self.others(key)):
            try:
                stretch = await partition.patch(first, partial(self._read, key, node_id))
            except BatchError as error:
                logger.info("%s: not patched by node %d: %s", partition.id, node_id, error)
                continue
            except GoQueueError as error:
                logger.info("%s: not patched by node %d: %s", partition.id, node_id, error)
                outcome = Outcome.UNKNOWN
                continue
            if stretch is not None and not await partition.is_damaged_at(first):
                logger.warning(
                    "%s: damaged records from %d to %d are patched, as node %d has them",
                    partition.id,
                    stretch.first_offset,
                    stretch.end_offset,
                    node_id,
                )
                return Outcome.PATCHED
        return outcome

    async def _read(self, key: PartitionKey, node_id: int, stretch: DamagedStretch) -> bytes:
        """What another replica has in place of a damaged stretch.

        Raises:
            BatchError: it has nothing there.
            GoQueueError: it did not say what it has.
        """
        found, offset = bytearray(), stretch.first_offset
        while offset < stretch.end_offset and len(found) < stretch.size_bytes <= PATCHED_BYTES:
            answer = await self._peers.ask(
                node_id,
                ApiKey.READ_BATCHES,
                0,
                topic_id=key.topic_id,
                partition_index=key.partition,
                offset=offset,
            )
            if answer.error_code or not answer.batches:
                code = ErrorCode(answer.error_code)
                told = f"node {node_id} answers {code.name} for offset {offset}"
                raise BatchError(told) if code in _HAVE_NOT else PeerUnavailableError(told)
            for position, info in walk(answer.batches):
                if info.base_offset >= stretch.end_offset:
                    break
                found += answer.batches[position : position + info.size_bytes]
                offset = info.next_offset
        return bytes(found)
