"""Every bound of the product that is not a setting, with what happens when it is reached."""

from typing import Final

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""One record's value. A larger one is refused with `BatchTooLargeError`; nothing is stored."""

MAX_HEADERS_BYTES: Final = 64 * 1024
"""One record's headers block. A larger one is refused with `MalformedHeadersError`."""

MAX_BATCH_BYTES: Final = 64 * 1024 * 1024
"""One batch, compressed or not. A larger length field is read as damage, never allocated."""

MAX_DECOMPRESSION_RATIO: Final = 1000
FREE_DECOMPRESSED_BYTES: Final = MAX_VALUE_BYTES + 1024 * 1024
"""The records of a compressed batch may be `FREE_DECOMPRESSED_BYTES` whatever their ratio, so that
one record of every permitted size fits. Above that a compressed byte may become at most
`MAX_DECOMPRESSION_RATIO`, and a batch `MAX_BATCH_BYTES`. A batch with more is not decompressed
further: `BatchTooLargeError` where it is published, a record that does not decode where it is read.
"""

FREE_BATCH_ITEMS: Final = 250_000
STORED_BYTES_PER_ITEM: Final = 16
"""The records of a batch and their headers, counted together. So many are always allowed, and in
batches that are larger than that one for each `STORED_BYTES_PER_ITEM` on the disk: a few bytes of
the sender must not become millions of objects. More is refused as above."""

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
