"""Bounds that clients of the gRPC API meet, with what happens at each."""

from typing import Final

MAX_POLLED_MESSAGES: Final = 1000
"""Messages of one Poll; more are refused with INVALID_ARGUMENT."""

MAX_WAIT_MS: Final = 30_000
"""The longest wait of one Poll; a longer one is refused with INVALID_ARGUMENT."""

MAX_WINDOW: Final = 5000
"""Unacknowledged messages of one Subscribe stream; a larger window is refused with
INVALID_ARGUMENT."""

MAX_CALLS: Final = 10_000
"""Calls of all connections at a time; further ones are refused with RESOURCE_EXHAUSTED. Where there
are tenants, one may have half of them, and further ones of it are refused likewise."""

MAX_WATCHERS: Final = 100
"""Streams of health and reflection, which may need no login; further ones are refused with
RESOURCE_EXHAUSTED."""

MAX_WATCHERS_EACH: Final = 5
"""Of these from one address; further ones are refused likewise."""

MAX_CONNECTIONS: Final = 1000
"""Open connections; a further one is closed at once. Where there are tenants, one may have calls
under way on half of them; calls on further ones are refused with RESOURCE_EXHAUSTED."""

MAX_STREAMS: Final = 100
"""Calls of one connection at a time; further ones wait on the client's side."""

MAX_IN_FLIGHT: Final = 100
"""Requests of one stream that are stored and not answered; then no more of them are read, and the
client's writes wait."""

MAX_ACKNOWLEDGED: Final = 5000
"""Messages that one request of a Subscribe stream acknowledges; more are refused with
INVALID_ARGUMENT."""

MAX_ELEMENTS: Final = 50_000
"""Elements of all repeated fields of one request together, such as messages and their headers. A
request with more is refused with INVALID_ARGUMENT, and nothing of it is done."""
