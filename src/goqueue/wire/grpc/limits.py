"""The bound of one gRPC message, on both sides."""

from typing import Final

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""One gRPC message, either way. A larger one fails its call with RESOURCE_EXHAUSTED."""
