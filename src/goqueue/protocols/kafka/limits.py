"""Bounds that Kafka clients meet, with what happens at each."""

from typing import Final

MAX_FETCH_BYTES: Final = 55 * 1024 * 1024
"""`fetch.max.bytes` of Kafka's brokers: a response holds no more, whatever the client asks for,
unless it is a single batch."""

MAX_SHARE_SESSION_PARTITIONS: Final = 500_000
"""Partitions in all share sessions together; at the bound likewise."""

MAX_SHARE_SESSIONS: Final = 2000
"""`group.share.max.share.sessions`. At the bound, sessions of members that have left are removed;
when there are none, no further session is opened, and its consumer retries."""

MAX_SETTLED_MESSAGES: Final = 5000
"""Messages that one request of a client of ours acknowledges by their receipts; a request with more
is refused, and nothing of it is done."""

MAX_CREATED_PARTITIONS: Final = 10_000
"""Partitions of all topics that one CreateTopics creates, as in Kafka; a request for more creates
none."""

MAX_DESCRIBED_PARTITIONS: Final = 2000
"""`max.request.partition.size.limit`: a response describes no more partitions, and names the one to
continue with. A topic that does not exist counts as one."""

MAX_PATTERN_CHARS: Final = 249
"""A pattern for transactional ids; a longer one is refused."""

MAX_SMALL_ELEMENTS: Final = 512
"""Array elements and tagged fields of a request that is read on the event loop. One with more is
large: it is read in a thread, starts alone on its connection, and large requests are served one at
a time. Before a login there are no large requests; one is malformed."""
