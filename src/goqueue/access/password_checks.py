"""Checking passwords: each check derives keys, which takes milliseconds of a processor, on purpose.

Checks run one at a time in a thread of low priority, so that many logins at once take no processor
from those who are logged in. A password that was right is remembered for a while as a keyed hash,
so that clients that connect often cost one derivation; a change of any user ends that.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.access.credentials import has_password
from goqueue.runtime.process import lower_thread_priority

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.credentials import User
    from goqueue.access.keys import Mechanism, ScramKeys

T = TypeVar("T")

_REMEMBERED_S: Final = 300.0
_MAX_REMEMBERED: Final = 10_000
"""Right passwords of one node; at the bound all are forgotten, and checked anew."""
_HASH_BYTES: Final = 32


class PasswordChecks:
    """The checks of one node."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="logins", initializer=lower_thread_priority
        )
        self._secret = secrets.token_bytes(_HASH_BYTES)
        self._remembered: dict[bytes, tuple[User, float]] = {}
        """By a hash of name and password: whose it is, as the user was then, and until when."""

    async def has_password(
        self, user: User | None, name: str, password: str, decoy: Callable[[Mechanism], ScramKeys]
    ) -> bool:
        """Whether there is such a user with this password."""
        now_s = asyncio.get_running_loop().time()
        key = self._hash(name, password)
        known = self._remembered.get(key)
        if known is not None and known[0] is user and now_s < known[1]:
            return True
        is_right = await self.run(partial(has_password, user, password, decoy))
        if is_right and user is not None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = user, now_s + _REMEMBERED_S
        return is_right

    async def run(self, work: Callable[[], T]) -> T:
        """Do something in the thread, when all before it is done.

        As much waits as listeners have connections whose clients log in, which they bound.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def forget(self) -> None:
        """Check every password anew: users have changed."""
        self._remembered.clear()

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _hash(self, name: str, password: str) -> bytes:
        said = f"{name}\0{password}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(said, key=self._secret, digest_size=_HASH_BYTES).digest()
