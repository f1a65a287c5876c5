"""Places of this node that the clients of all tenants share: one tenant may have half of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goqueue.model.errors import TenantShareExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator


class TenantPlaces:
    """Who has how many places. Clients of no tenant are not counted."""

    def __init__(self, size: int, what: str) -> None:
        """There are `size` places, for `what`, such as "gRPC calls under way"."""
        self._size = size
        self._what = what
        self._taken: Counter[str] = Counter()
        """By tenant, as many as have any."""

    def taken(self, tenant: str) -> int:
        """How many places a tenant has."""
        return self._taken[tenant]

    def take(self, tenant: str) -> None:
        """Give a tenant one more place. Raises `TenantShareExceededError` if it has half of all."""
        check_share(tenant, self._taken[tenant], self._size, self._what)
        self._taken[tenant] += 1

    def give_back(self, tenant: str) -> None:
        """Take a place back."""
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]

    def hold(self, tenant: str) -> None:
        """Give a tenant one more place until the task of the caller ends. Raises like `take`."""
        task = asyncio.current_task()
        assert task is not None  # requests are answered by tasks
        self.take(tenant)
        task.add_done_callback(lambda _: self.give_back(tenant))

    @contextmanager
    def place(self, tenant: str | None) -> Iterator[None]:
        """A place as long as the block runs. Raises like `take`."""
        if tenant is None:
            yield
            return
        self.take(tenant)
        try:
            yield
        finally:
            self.give_back(tenant)


def check_share(tenant: str, taken: int, size: int, what: str) -> None:
    """Whether a tenant that has `taken` of `size` places may have one more.

    Raises:
        TenantShareExceededError: it may not.
    """
    limit = max(size // 2, 1)
    if taken >= limit:
        raise TenantShareExceededError(
            f"tenant {tenant!r} has {taken} {what} on this node; one tenant may have {limit} of "
            f"the {size} that all clients share: end some, or try again later"
        )
