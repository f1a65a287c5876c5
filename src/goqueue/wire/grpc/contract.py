"""What the two sides of a gRPC connection agree on besides the messages of the contract."""

from typing import Final

COORDINATOR_KEY: Final = "goqueue-coordinator"
"""Trailing metadata of a call that another node has answered: the address where that node, which
coordinates the group or the transaction, takes calls itself."""
UNANSWERED_KEY: Final = "goqueue-unanswered"
"""Trailing metadata of a list of all nodes: the ids of those whose part is missing, with commas."""
ERROR_KEY: Final = "goqueue-error-bin"
"""Of the trailing metadata that carries the error of a call."""
