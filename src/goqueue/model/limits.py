"""Every bound of the product that is not a setting, with what happens when it is reached."""

from typing import Final

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""One record's value. A larger one is refused with `BatchTooLargeError`; nothing is stored."""

MAX_HEADERS_BYTES: Final = 64 * 1024
"""One record's headers block. A larger one is refused with `MalformedHeadersError`."""

MAX_BATCH_BYTES: Final = 64 * 1024 * 1024
"""One batch, compressed or not. A larger length field is read as damage, never allocated."""

MAX_PUBLISHED_MESSAGES: Final = 10_000
"""Messages of one publish over HTTP or gRPC. A request with more is refused, and none is stored."""

MAX_ID_CHARS: Final = 1000
"""Ids of groups, members, instances, clients and transactions. A longer one is refused."""

PRIORITY_COUNT: Final = 5
"""Lanes 0 (critical) to 4 (background). Another number is refused with `PriorityError`."""

MAX_METADATA_KEY_BYTES: Final = 1024
"""One key of the metadata store, in UTF-8; a longer one: `InvalidMetadataRequestError`."""

MAX_METADATA_TRANSACTION_KEYS: Final = 128
"""Conditions and operations of one transaction, etcd's own bound; more are refused the same way."""

MAX_METADATA_TRANSACTION_BYTES: Final = 1024 * 1024
"""Keys and values of one transaction, under etcd's own bound; more are refused the same way."""

MAX_METADATA_SESSIONS: Final = 10_000
"""Open sessions of one metadata store; a further one is refused the same way."""
