"""Bounds that clients of the HTTP API meet, with what happens at each."""

from typing import Final

MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, where RFC 3339 ends; a later time is refused with 400."""

MAX_HEAD_BYTES: Final = 64 * 1024
"""The target and headers of a request; more are refused with 431."""

MAX_CARRIED_HEADERS: Final = 100
"""Headers of a request that a connection of another protocol carries; more are refused with 431."""

MAX_AUTO_COMMIT_MS: Final = 3_600_000
"""The longest auto-commit interval of a member; a longer one is refused with 400."""

MAX_POLL_MS: Final = 60_000
"""The longest wait of a poll; a longer one is refused with 400."""

MAX_QUEUE_COUNT: Final = 1_000_000
"""Messages that one member may hold unacknowledged, and that may wait for a retry; a larger setting
is refused with 400."""

MAX_READ_MESSAGES: Final = 1000
"""Messages of one response; more are read with another request."""

MAX_READ_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the messages of one response; the rest is left for the next request."""

MAX_READ_WAIT_MS: Final = 20_000
"""The longest wait of a read for new messages; a longer one is refused with 400."""

MAX_SEARCH_RESULTS: Final = 500
"""Messages that one search returns; a larger `limit` is refused with 400."""

MAX_GROUPED_LETTERS: Final = 20_000
"""Dead letters that one list of errors counts; the rest is counted by the next request."""

MAX_EXPORT_MESSAGES: Final = 100_000
"""Messages of one exported file; a larger `limit` is refused with 400."""

MAX_RECEIPTS: Final = 10_000
"""Receipts of one batch of acknowledgements; more are refused with 400."""

MAX_OFFSET_RANGES: Final = 10_000
"""Ranges of dead-letter offsets in one request or response."""

MAX_LISTED_PARTITIONS: Final = 10_000
"""Partitions that one list of a cluster's returns; a larger `limit` is refused with 400."""

MAX_FILTER_CHARS: Final = 1000
"""Characters of a filter of a list; a longer one is refused with 400."""

MAX_REDRIVE_RATE: Final = 1_000_000
"""Messages a second of one redrive; a higher rate is refused with 400."""
