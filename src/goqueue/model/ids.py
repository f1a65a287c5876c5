"""Distinct integer kinds, so that an offset is never passed where an epoch belongs."""

from typing import Final, NewType

Offset = NewType("Offset", int)
"""The place of a record in one partition's log; given once, never changed."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the leaders a partition has had; stamped on every batch that a leader appends."""

ProducerId = NewType("ProducerId", int)
"""Names one idempotent or transactional producer; -1 is a producer without one."""

TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since the Unix epoch."""

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = TimestampMs(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
