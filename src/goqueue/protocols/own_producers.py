"""The producers of a client, where a request names one by its id alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.rights import Operation, ResourceType, Right
from goqueue.model.errors import UnknownProducerError
from goqueue.transactions.registry import unknown_producer

if TYPE_CHECKING:
    from goqueue.protocols.permissions import Permissions
    from goqueue.transactions.service import Transactions

_WRITE: Final = Right(ResourceType.TRANSACTIONAL_ID, Operation.WRITE)


async def own_transactional_id(
    transactions: Transactions, may: Permissions, producer_id: int, claimed: str | None = None
) -> str:
    """The transactional id of a producer, which must be `claimed` where the client says one.

    Raises:
        UnknownProducerError: there is no such producer, or it is another client's.
    """
    found = await transactions.find_id(producer_id)
    if not may.allows(_WRITE, found):
        raise unknown_producer(producer_id)
    if claimed not in {None, "", found}:
        raise UnknownProducerError(f"producer {producer_id} is not the one of {claimed!r}")
    return found
