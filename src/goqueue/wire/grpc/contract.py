"""What the two sides of a gRPC connection agree on besides the messages of the contract."""

from typing import Final

ERROR_KEY: Final = "goqueue-error-bin"
"""Of the trailing metadata that carries the error of a call."""
