"""Every bound of the product that is not a setting, with what happens when it is reached."""

from typing import Final

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""One record's value. A larger one is refused with `BatchTooLargeError`; nothing is stored."""

MAX_HEADERS_BYTES: Final = 64 * 1024
"""One record's headers block. A larger one is refused with `MalformedHeadersError`."""

MAX_BATCH_BYTES: Final = 64 * 1024 * 1024
"""One batch, compressed or not. A larger length field is read as damage, never allocated."""

PRIORITY_COUNT: Final = 5
"""Lanes 0 (critical) to 4 (background). Another number is refused with `PriorityError`."""
