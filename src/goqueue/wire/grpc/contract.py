"""What the two sides of a gRPC connection agree on besides the messages of the contract."""

from typing import Final

ERROR_KEY: Final = "goqueue-error-bin"
"""Of the trailing metadata that carries the error of a call."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Of one gRPC message, either way. A larger one fails its call with RESOURCE_EXHAUSTED."""
